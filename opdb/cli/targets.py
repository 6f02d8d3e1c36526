"""--soc and --sdk with several values: chips and SDK versions that one call compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli import completion
from opdb.cli.option_groups import ErrataOptions
from opdb.generated.constants.backends import DEFAULT

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target


@dataclass(frozen=True)
class SeveralTargetsOptions:
    """The targets of a model: each chip with each SDK."""

    backend: Annotated[
        str,
        typer.Option("--backend", metavar="BACKEND", help="QNN backend.", autocompletion=completion.backends),
    ] = DEFAULT
    soc: Annotated[
        list[str] | None,
        typer.Option(
            "--soc",
            metavar="SOC",
            autocompletion=completion.socs,
            help="SoC, e.g. SM8650, '8 Gen 3'; several: SM8550,SM8650, or the option again.",
        ),
    ] = None
    sdk: Annotated[
        list[str] | None,
        typer.Option(
            "--sdk",
            metavar="VERSION",
            help="QNN SDK, e.g. 2.47; several: as for --soc.",
            autocompletion=completion.sdks,
        ),
    ] = None
    errata: ErrataOptions = ErrataOptions()

    def targets(self) -> list[Target]:
        """Each chip with each SDK, chips first, none twice; see ``ErrataOptions.target`` for what it raises."""
        socs: list[str | None] = [*listed(self.soc)] or [None]
        sdks: list[str | None] = [*listed(self.sdk)] or [None]
        made = [self.errata.target(self.backend, soc, sdk) for soc in socs for sdk in sdks]
        for target in made:
            target.context()  # raises for an unknown SDK before the model is loaded
        return list(dict.fromkeys(made))


def listed(values: Sequence[str] | None) -> list[str]:
    """The values of an option that may be repeated and may have several values with commas in between."""
    return list(_split(values or ()))


def _split(values: Sequence[str]) -> Iterator[str]:
    for value in values:
        parts = [part.strip() for part in value.split(",")]
        yield from (part for part in parts if part) if any(parts) else [value]
