"""The section ``tiling`` of a kernel: ways to compute its output in pieces.

    tiling:
      axes: [any..., {multiple: 8}, whole]
      inputs:
        x: [same..., {before: 0, after: 2}, whole]
        bias: [whole]

``axes`` has an entry for each axis of the output, in order: ``whole`` (a tile has all of it), ``any`` (a tile has any part
of it) or ``{multiple: n}`` (a part of n, 2n, ... elements, or the rest at the end).  The first entry may end in
``...`` to cover all axes before the others.

``inputs`` gives the part of an input that a tile reads, axis by axis: ``whole``, ``same`` (the tile's part of the output
axis at the same index, counted from the last) or a record: from ``scale * first - before`` to ``scale * last + after``, for
a tile from ``first`` to ``last`` along axis ``of`` of the output (-1: the last one; by default the one at the same index).
Inputs that are not listed are read whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from opdb.spec.fields import Identifier, Model, WithShort


class Cut(WithShort):
    """One axis of the output.  ``multiple`` 0: whole; 1: any part."""

    multiple: Annotated[int, Field(ge=0)] = 0
    rest: bool = False  # it also covers all axes in front

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, raw: Any) -> Any:
        if not isinstance(raw, str):
            return raw
        words = {"whole": 0, "any": 1}
        if raw.removesuffix("...") not in words:
            raise ValueError(f"'{raw}' is not whole, any, or one of them with '...'")
        return {"multiple": words[raw.removesuffix("...")], "rest": raw.endswith("...")}

    def _short(self, kept: dict[str, Any]) -> Any:
        if self.multiple > 1:
            return kept
        return ("any" if self.multiple else "whole") + "..." * self.rest


class Part(WithShort):
    """The part of one input axis that a tile reads."""

    kind: Literal["whole", "part"] = "part"
    rest: bool = False
    of: Annotated[int, Field(le=-1)] | None = None
    scale: Annotated[int, Field(ge=1)] = 1
    before: Annotated[int, Field(ge=0)] = 0
    after: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, raw: Any) -> Any:
        if not isinstance(raw, str):
            return raw
        words: dict[str, str] = {"whole": "whole", "same": "part"}
        if raw.removesuffix("...") not in words:
            raise ValueError(f"'{raw}' is not whole, same, or one of them with '...'")
        return {"kind": words[raw.removesuffix("...")], "rest": raw.endswith("...")}

    def _short(self, kept: dict[str, Any]) -> Any:
        if set(kept) - {"kind", "rest"}:
            return kept
        return ("whole" if self.kind == "whole" else "same") + "..." * self.rest

    def range(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last index that a tile from ``first`` to ``last`` reads."""
        return self.scale * first - self.before, self.scale * last + self.after


_Entry = TypeVar("_Entry", Cut, Part)


def _alone_in_front(entries: Sequence[Cut | Part]) -> None:
    if any(e.rest for e in entries[1:]):
        raise ValueError("only the first entry can end in '...'")


class Tiling(Model):
    axes: list[Cut]
    inputs: dict[Identifier, Annotated[list[Part], BeforeValidator(list)]] = {}

    @model_validator(mode="after")
    def _sound(self) -> Tiling:
        _alone_in_front(self.axes)
        for parts in self.inputs.values():
            _alone_in_front(parts)
        if not any(cut.multiple for cut in self.axes):
            raise ValueError("'axes' are all whole: leave 'tiling' out")
        return self

    def cuts(self, rank: int) -> list[Cut]:
        """One cut for each axis of an output of ``rank`` axes; without a ``...`` the axes in front are whole."""
        return _spread(self.axes, rank, Cut())

    def parts(self, slot: str, rank: int) -> list[Part]:
        """One part for each axis of an input of ``rank`` axes."""
        whole = Part(kind="whole")
        return _spread(self.inputs.get(slot, []), rank, whole)


def _spread(entries: Sequence[_Entry], rank: int, front: _Entry) -> list[_Entry]:
    first = entries[0] if entries and entries[0].rest else front
    last = [e for e in entries if not e.rest]
    return [first] * max(0, rank - len(last)) + last[max(0, len(last) - rank) :]
