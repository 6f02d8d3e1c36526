"""Calls verify, infer shape, and select of an op with trial nodes, and checks that they agree with the YAML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opdb.core.names import counted
from opdb.plugins.cloud_ai.check import source, trials
from opdb.plugins.cloud_ai.check.config import BACKENDS, NAME, Op
from opdb.plugins.cloud_ai.check.findings import Findings, listed
from opdb.plugins.cloud_ai.check.host import Answer, Host, Node
from opdb.plugins.cloud_ai.check.source import Source
from opdb.plugins.cloud_ai.check.trials import Asked, described

#: The largest number of samples of an op, and of samples with the same types.
SAMPLES, SAME_TYPES = 8, 3
#: The number of trials of types that were never accepted, once others were.
PATIENCE = 5
#: The number of trials of functions that crash and accept nothing.
CRASHES = 30
CALLS = ("infer", "verify", *(f"select {b}" for b in BACKENDS))


@dataclass(frozen=True)
class Sample:
    """A node that infer and verify accepted.  ``outputs``: dtype and dims of each; ``selected``: kernel by backend."""

    node: Node
    outputs: tuple[tuple[int, tuple[int, ...]], ...]
    selected: dict[str, str] = field(compare=False)


class Functions:
    """Calls the functions library of one op, and adds findings."""

    def __init__(
        self, op: Op, path: Path, text: Source | None, host: Host, asked: Asked, findings: Findings
    ) -> None:
        self.op, self.path, self.text, self.host, self.asked, self.findings = (
            op,
            path,
            text,
            host,
            asked,
            findings,
        )
        self.tried = self.inferred = 0
        self.pairs: dict[tuple[str, str], None] = {}  # texts that verify compared: ours, theirs
        self.refused: Node | None = None  # the likeliest node that verify refused
        self._said: set[tuple[str, str]] = set()

    def fault(self, id_: str, function: str, message: str, cure: str) -> None:
        """Adds a finding at the function's line if its source is there, else at functionsLibrary; the first node that shows it is named."""
        if id_ not in ("select-unknown", "select-nothing") and (id_, function) in self._said:
            return
        self._said.add((id_, function))
        place = source.body(self.text, function) if self.text is not None else None
        if self.text is not None and place is not None:
            self.findings.add(id_, self.text.path, place[0], self.op.type, message, cure)
        else:
            self.findings.add(id_, self.op.file, self.op.library_line, self.op.type, message, cure)

    def samples(self) -> list[Sample]:
        """Nodes that the functions accept; at most SAMPLES."""
        found = self._search(())
        names = {p.name for p in self.op.parameters}
        texts = [theirs for ours, theirs in self.pairs if ours == trials.ANY_TEXT and theirs not in names]
        if not found and texts:
            found = self._search(texts)
        if (
            not found
            and not (found := self._renamed())
            and not self.findings.has("verify-name", self.op.type)
        ):
            self._nothing_taken()
        self._selected(found)
        return found

    def _search(self, texts: Sequence[str]) -> list[Sample]:
        found: list[Sample] = []
        tried, taken = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
        for node in trials.nodes(self.op, self.asked, texts):
            types = tuple(t.dtype for t in node.inputs)
            if taken[types] >= SAME_TYPES or (found and not taken[types] and tried[types] >= PATIENCE):
                continue
            tried[types] += 1
            sample = self._try(node)
            if sample is not None:
                taken[types] += 1
                found.append(sample)
            died = not found and self.findings.has("crash", self.op.type) and tried.total() >= CRASHES
            if len(found) == SAMPLES or self.findings.has("hang", self.op.type) or died:
                break
        return found

    def _try(self, node: Node) -> Sample | None:
        answer = self.host.ask(self.path, node, CALLS)
        self.tried += 1
        if answer.died and not self._explained(answer, node):
            return None
        inferred, verified = answer.first("infer"), answer.first("verify")
        self.pairs.update(((ours, theirs), None) for ours, theirs in verified.get("asked", ()))
        if not inferred.get("infer"):
            return None
        self.inferred += 1
        outputs = self._outputs(inferred["outputs"], node)
        if not verified.get("verify"):
            self.refused = self.refused or node
            return None
        if outputs is None or answer.died:
            return None
        selected = {str(s["select"]): "" if s["null"] else str(s["name"]) for s in answer.all("select")}
        return Sample(node, outputs, selected)

    def _explained(self, answer: Answer, node: Node) -> bool:
        """Adds a finding about how the process ended.  True if verify was answered anyway."""
        if failed := answer.first("failed"):
            self.findings.add(
                "library-load", self.op.file, self.op.library_line, self.op.type, str(failed["failed"]),
                "link what is missing into the library",
            )  # fmt: skip
            return False
        function = FUNCTIONS.get(answer.during.split(" ")[0], "")
        if function:
            how = "did not come back" if answer.died == "hang" else f"crashed ({answer.died})"
            self.fault(
                "hang" if answer.died == "hang" else "crash", function, f"{function} {how} with {described(node)}",
                "check ranks, counts and values before they are used",
            )  # fmt: skip
        return bool(answer.first("verify"))

    def _outputs(
        self, given: Sequence[dict[str, Any]], node: Node
    ) -> tuple[tuple[int, tuple[int, ...]], ...] | None:
        for tensor, output in zip(self.op.outputs, given, strict=True):
            rank, dims = int(output["rank"]), [int(d) for d in output["dims"]]
            if not 0 <= rank <= tensor.max_dims:
                self.fault(
                    "infer-output", "customOpInferShape",
                    f"{tensor.name} gets {counted(rank, 'dimension')} of {described(node)}; maxDims is {tensor.max_dims}",
                    "return false, or raise maxDims in the YAML",
                )  # fmt: skip
                return None
            if any(d <= 0 for d in dims) or not 0 <= int(output["dtype"]) <= 10:
                self.fault(
                    "infer-output", "customOpInferShape",
                    f"{tensor.name} gets the shape {dims} and the data type {output['dtype']} of {described(node)}",
                    "set dtype, rank and each dimension of each output",
                )  # fmt: skip
                return None
        return tuple((int(o["dtype"]), tuple(int(d) for d in o["dims"])) for o in given)

    # -- names --------------------------------------------------------------------------------------------------------

    def _renamed(self) -> list[Sample]:
        """The samples accepted after a parameter is renamed as verify asks, with a finding; [] if there are none."""
        names = [p.name for p in self.op.parameters]
        pairs = [(ours, theirs) for ours, theirs in self.pairs if ours in names and NAME.fullmatch(theirs)]
        known = {theirs for _, theirs in pairs}
        pairs += [(ours, theirs) for theirs in self._in_text() if theirs not in known for ours in names]
        for ours, theirs in dict.fromkeys(pairs):
            if theirs in names:
                continue
            samples = self._search_renamed(ours, theirs)
            if samples:
                self._wants(theirs, next(p.line for p in self.op.parameters if p.name == ours),
                            f"the YAML calls it {ours}; renamed, verify is true", f"{theirs}, or {ours}")  # fmt: skip
                return samples
        for theirs in dict.fromkeys(theirs for _, theirs in pairs if theirs not in names):
            self._wants(theirs, self.op.line, f"the YAML has {listed(names)}", theirs)
        return []

    def _wants(self, name: str, line: int, but: str, cure: str) -> None:
        self.findings.add(
            "verify-name", self.op.file, line, self.op.type, f"verify asks for a parameter {name}; {but}",
            f"use one name in both: {cure}",
        )  # fmt: skip

    def _search_renamed(self, ours: str, theirs: str) -> list[Sample]:
        parameters = tuple(replace(p, name=theirs) if p.name == ours else p for p in self.op.parameters)
        values = {theirs if n == ours else n: v for n, v in self.asked.values.items()}
        renamed = replace(self.op, parameters=parameters)
        other = Functions(
            renamed, self.path, self.text, self.host, Asked(self.asked.shapes, values), Findings()
        )
        return other._search(())

    def _in_text(self) -> list[str]:
        """Strings that verify's source compares with something called ``name``."""
        if self.text is None:
            return []
        place = source.body(self.text, "customOpVerify")
        if place is None:
            return []
        begin = self.text.code.find(place[1])
        bare = self.text.bare[begin : begin + len(place[1])]
        near = r"name\W{0,4}[^;\"]{0,40}\"(\w+)\"|\"(\w+)\"[^;\"]{0,40}name\b"
        return [a or b for a, b in re.findall(near, bare)]

    def _nothing_taken(self) -> None:
        given = bool(self.asked.shapes or self.asked.values)
        tell = "say which it takes: --shape INPUT=2,3,8 and --param NAME=VALUE"
        if any(
            self.findings.has(id_, self.op.type) for id_ in ("crash", "hang", "library-load", "infer-output")
        ):
            return
        if not self.inferred and self.findings.has("stub", self.op.type):
            return
        if not self.inferred:
            self.fault(
                "infer-refuses" if given else "infer-never", "customOpInferShape",
                f"customOpInferShape is false for each of {counted(self.tried, 'node')}", tell,
            )  # fmt: skip
        elif self.refused is not None:
            self.fault(
                "verify-refuses" if given else "verify-never", "customOpVerify",
                f"customOpVerify is false for each of {counted(self.inferred, 'node')}, e.g. {described(self.refused)}", tell,
            )  # fmt: skip

    # -- select -------------------------------------------------------------------------------------------------------

    def _selected(self, found: Sequence[Sample]) -> None:
        """Checks that each name select returns is a kernel of that backend."""
        answers = [s.selected for s in found] or [self._select_anyway()]
        for backend in BACKENDS:
            kernels = self.op.kernels(backend)
            names = [a[backend] for a in answers if backend in a]
            for name in dict.fromkeys(n for n in names if n and n not in kernels):
                other = [b for b in BACKENDS if name in self.op.kernels(b)]
                said = f"has {listed(kernels)}" if kernels else "has no implementation"
                if other and not kernels:
                    continue  # one name for all backends: without an Interpreter implementation it is not asked about
                self.fault(
                    "select-unknown", "customOpSelectImpl", f"select names {name!r} for {backend}, which {said} in the YAML",
                    "name a kernel of the YAML" if kernels else "return NULL, or add the implementation",
                )  # fmt: skip
            if kernels and names and not any(names):
                self.fault(
                    "select-nothing", "customOpSelectImpl",
                    f"select names no kernel for {backend}, for which the YAML has {listed(kernels)}",
                    f"return {kernels[0]!r} for what it computes",
                )  # fmt: skip

    def _select_anyway(self) -> dict[str, str]:
        """The answer of select to the likeliest node when no node was accepted; NULL may be right there."""
        node = self.refused or next(trials.nodes(self.op, self.asked), None)
        if node is None:
            return {}
        out: dict[str, str] = {}
        for backend in BACKENDS:
            answer = self.host.ask(self.path, node, ["infer", f"select {backend}"])
            if answer.died and answer.during.startswith("select"):
                self._explained(answer, node)
            selected = answer.first("select")
            if selected and not selected["null"]:
                out[backend] = str(selected["name"])
        return out


FUNCTIONS = {"infer": "customOpInferShape", "verify": "customOpVerify", "select": "customOpSelectImpl"}
