"""Options shared by several commands as one parameter: a dataclass whose fields are options, or further groups.

    @with_option_groups
    def command(model: str, target: TargetOptions, json: Json = False) -> None: ...

has --backend, --soc, --sdk, and so on instead of ``target``.  A command that needs another wording of an option subclasses
the group and overrides that field, which keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from opdb.cli import options as option
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opdb.catalog.store import Store
    from opdb.catalog.targets.target import Target
    from opdb.cli.screen_table import Layout
    from opdb.spec.catalog import Catalog


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` in a form that typer can read: each group is replaced by its fields."""
    groups: dict[str, type] = {}
    parameters: list[Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for parameter in signature(command).parameters.values():
        hint = hints[parameter.name]
        if isinstance(hint, type) and is_dataclass(hint):
            groups[parameter.name] = hint
            parameters += _parameters(hint)
        else:
            parameters.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def called(**values: Any) -> None:
        made = {name: _group(group, values) for name, group in groups.items()}
        command(**made, **values)

    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called


def _parameters(group: Any) -> Iterator[Parameter]:
    """A parameter for each option of a group."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        hint = hints[field.name]
        if is_dataclass(hint):
            yield from _parameters(hint)
        else:
            default = Parameter.empty if field.default is MISSING else field.default
            yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _group(group: Any, values: dict[str, Any]) -> Any:
    """Builds the group from its values, and removes them from ``values``."""
    hints = get_type_hints(group)
    return group(
        **{
            field.name: _group(hints[field.name], values)
            if is_dataclass(hints[field.name])
            else values.pop(field.name)
            for field in fields(group)
        }
    )


@dataclass(frozen=True)
class ErrataOptions:
    """Options that choose which errata of the library count."""

    execution: option.Execution = None
    errata: option.Errata = None
    ignore_erratum: option.IgnoreErratum = None

    def target(self, backend: str | None, soc: str | None, sdk: str | None) -> Target:
        """The target with these errata, with backend and SoC in canonical spelling; a SoC without a backend means HTP.

        Raises OpdbError for an unknown backend, SoC, policy, or erratum, and for a chip that is older than the backend.
        """
        from opdb.catalog.targets.target import Target
        from opdb.judge.errata.policy import known_errata

        ignored = known_errata(self.ignore_erratum or ())
        asked = Target(
            backend or (DEFAULT if soc else None),
            soc or None,
            sdk,
            self.execution or "device",
            self.errata,
            ignored,
        )
        asked.check_chip()
        return asked.spelled()


@dataclass(frozen=True)
class TargetOptions:
    """The target of a model or an op config."""

    backend: option.Backend = None
    soc: option.Soc = None
    sdk: option.Sdk = None
    errata: ErrataOptions = ErrataOptions()

    def target(self) -> Target:
        """See ``ErrataOptions.target``."""
        return self.errata.target(self.backend, self.soc, self.sdk)


@dataclass(frozen=True)
class ModelOptions:
    """Options for reading a model."""

    dtype: option.Dtype = "f32"
    decompose: option.Decompose = False
    dim: option.Dim = None

    def check(self) -> None:
        """Raises OpdbError for an unknown --dtype."""
        if self.dtype not in ("f32", "f16"):
            raise OpdbError(f"--dtype {self.dtype}: one of f32, f16")

    def dims(self) -> Mapping[str, int]:
        """The sizes of --dim by name.  Raises OpdbError for an invalid one."""
        from opdb.programs.onnx.inputs import parsed

        return parsed(self.dim or ())


@dataclass(frozen=True)
class ModelFileOptions(ModelOptions):
    """Options for reading a model, and for quantizing an ONNX file in floats."""

    encodings: option.Encodings = None


@dataclass(frozen=True)
class OptimizerOptions:
    """Options of the graph optimizer.  ``passes``: list the passes, which ends the command."""

    no_pass: option.NoPass = None
    io_layout: option.IoLayout = "keep"
    passes: option.Passes = False

    @property
    def without(self) -> Collection[str]:
        """The passes to skip."""
        return tuple(self.no_pass or ())

    @property
    def given(self) -> bool:
        """True if an option differs from its default."""
        return bool(self.no_pass) or self.io_layout != "keep"

    def check(self) -> None:
        """Raises OpdbError for an unknown pass or layout."""
        from opdb.lower.passes import check_layout, check_names

        check_names(self.without)
        check_layout(self.io_layout)


@dataclass(frozen=True)
class TableOptions:
    """The columns of a table, and paging."""

    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Only these columns, separated by commas.")
    ] = None
    wide: Annotated[bool, typer.Option("--wide", help="On a terminal: all columns.")] = False
    pager: Annotated[bool, typer.Option("--pager", help="On a terminal: show it with $PAGER, or less.")] = (
        False
    )

    def chosen(self, known: Sequence[str], what: str) -> list[str]:
        """The columns to print, of those that ``what`` has.  Raises OpdbError for an unknown one."""
        if self.columns is None:
            return list(known)
        wanted = [c.strip() for c in self.columns.split(",")]
        for c in wanted:
            if c not in known:
                raise OpdbError(f"--columns: '{what}' has no column '{c}'; known: {', '.join(known)}")
        return wanted

    def layout(self, first: Sequence[str] = ()) -> Layout:
        """How a terminal shows the table.  ``first``: the columns that answer, by importance."""
        from opdb.cli.screen_table import Layout

        return Layout(first, self.wide or self.columns is not None, "--wide or --columns A,B", self.pager)


@dataclass(frozen=True)
class DatabaseOptions:
    """The database and the specs."""

    db: option.Db = None
    specs: option.Specs = None

    def words(self) -> list[str]:
        """The same options as arguments for another command."""
        db = ["--db", self.db] if self.db else []
        return [*db, *(["--specs", str(self.specs)] if self.specs else [])]

    def brought_up_to_date(self) -> Store:
        """See ``opdb.cli.options.brought_up_to_date``."""
        return option.brought_up_to_date(self.db, self.specs)

    def synced(self) -> tuple[Store, Catalog]:
        """See ``opdb.cli.options.synced``."""
        return option.synced(self.db, self.specs)

    def catalog(self) -> Catalog:
        """The catalog of these specs, after bringing the database up to date."""
        return self.synced()[1]


@dataclass(frozen=True)
class SourceOptions:
    """Options for C sources that a command writes."""

    no_build: Annotated[bool, typer.Option("--no-build", help="Write the sources only.")] = False
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that opdb did not write.")] = False
