"""``check``: from a package to the findings about it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.plugins.cloud_ai.check import config, files, kernel_lint, memory, source
from opdb.plugins.cloud_ai.check.config import CARD, Implementation, Op
from opdb.plugins.cloud_ai.check.files import Sources
from opdb.plugins.cloud_ai.check.findings import Finding, Findings, listed, shown
from opdb.plugins.cloud_ai.check.functions import Functions, Sample
from opdb.plugins.cloud_ai.check.host import DTYPES, HOST, INTERFACES, ROOT, Host
from opdb.plugins.cloud_ai.check.kernels import Kernel, Runs
from opdb.plugins.cloud_ai.check.source import Source
from opdb.plugins.cloud_ai.check.toolchain import Diagnostic, Toolchain
from opdb.plugins.cloud_ai.check.trials import Asked

STAND_INS = ROOT / "stand_in"


@dataclass(frozen=True)
class Tried:
    """Coverage of one op: its interface, the number of samples its functions accepted, the kernels that ran on them."""

    interface: str
    samples: int
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class Checked:
    """The findings, and what was tried for each op."""

    files: tuple[str, ...]
    findings: tuple[Finding, ...]
    ops: dict[str, Tried]

    @property
    def errors(self) -> int:
        return sum(f.severity == "error" for f in self.findings)


def check(path: Path, asked: Asked, op_type: str | None = None, interface: str | None = None) -> Checked:
    """Checks the ops of a YAML file, or of all YAML files below a folder; ``op_type`` selects one op.

    Raises OpdbError for something that is not a package, an op that it does not have, or a missing C++ compiler.
    """
    if interface is not None and interface not in INTERFACES:
        raise OpdbError(f"--api {interface}: one of {', '.join(INTERFACES)}")
    findings = Findings()
    yamls = config.yaml_files(path)
    ops = [op for yaml in yamls for op in config.read(yaml, findings)]
    chosen = [op for op in ops if op_type in (None, op.type)]
    if not chosen and op_type is not None:
        raise OpdbError(f"--op {op_type}: {path} has {listed(op.type for op in ops)}")
    if asked.shapes or asked.values:
        if len(chosen) != 1:
            raise OpdbError(
                f"--shape and --param are about one op; say which with --op: {listed(o.type for o in ops)}"
            )
        asked.check(chosen[0])
    done = {}
    with tempfile.TemporaryDirectory(prefix="opdb-aic-") as folder:
        hosts: dict[str, tuple[Toolchain, Host]] = {}
        sources: dict[Path, Sources] = {}
        for op in chosen:
            root = op.file.parent.resolve()
            if root not in sources:
                sources[root] = Sources(root)
            one = _Op(op, asked, sources[root], hosts, Path(folder), findings, interface)
            done[op.type] = one.check()
    return Checked(tuple(shown(y) for y in yamls), tuple(findings.sorted()), done)


class _Op:
    """Checks one op, from its files to its kernels."""

    def __init__(
        self, op: Op, asked: Asked, sources: Sources, hosts: dict[str, tuple[Toolchain, Host]], folder: Path,
        findings: Findings, interface: str | None,
    ) -> None:  # fmt: skip
        self.op, self.asked, self.sources, self.folder, self.findings = op, asked, sources, folder, findings
        self.text = sources.defining("customOpVerify", op, op.library)
        self.library = (
            files.library(op, op.library, op.library_line, "functionsLibrary", findings)
            if op.library
            else None
        )
        self.interface = interface or files.interface(op, self.text, self.library)
        if self.interface not in hosts:
            tools = _tools(folder, self.interface)
            hosts[self.interface] = (tools, Host(self.interface, tools))
        self.tools, self.host = hosts[self.interface]

    def check(self) -> Tried:
        op = self.op
        functions = self._functions()
        samples: list[Sample] = []
        if functions is not None:
            caller = Functions(op, functions, self.text, self.host, self.asked, self.findings)
            samples = caller.samples()
        kernels = [self._kernel(i) for i in op.implementations]
        ran: list[str] = []
        if functions is not None and samples:
            runs = Runs(op, functions, self.host, self.folder, self.findings)
            computed = [(k, runs.check(k, samples)) for k in kernels if "plain" in k.libraries]
            runs.agree(computed)
            ran = runs.ran
        self._memory(samples)
        return Tried(self.interface, len(samples), tuple(ran))

    # -- the functions library ----------------------------------------------------------------------------------------

    def _functions(self) -> Path | None:
        """A library of functions that can be called here: the package's own if its layouts are known, else one built from its source."""
        op, text = self.op, self.text
        if self.library is not None and self.library.usable:
            files.check_exports(op, self.library, self.interface, self.findings)
        if text is not None:
            self._read(text)
        own = self.library
        complete = own is not None and not set(files.REQUIRED[self.interface]) - own.exports
        if own is not None and own.usable and complete and files.fits(op, self.interface):
            return own.path
        if text is not None:
            return self._built(text, ())
        if own is not None and own.usable and complete:
            self.findings.add(
                "not-run", op.file, op.library_line, op.type,
                f"{shown(own.path)} was made with the SDK's headers, whose layouts are not public: not called",
                "put the source of verify, infer and select beside it",
            )  # fmt: skip
        return None

    def _read(self, text: Source) -> None:
        """Checks the source of the functions alone."""
        for function in ("customOpInferShape", "customOpVerify"):
            body = source.body(text, function)
            if body is not None and "".join(body[1].split()) == "returnfalse;":
                self.findings.add(
                    "stub", text.path, body[0], self.op.type, f"{function} is always false", "write the function"
                )  # fmt: skip
        _, said = self.tools.object(text.path)
        kernel_lint.warnings(said, text.path, self.op.type, self.findings)

    def _built(self, text: Source, args: tuple[str, ...]) -> Path | None:
        path, said = self.tools.library([text.path], "plain", args)
        if path is None:
            kernels = [i.type for i in self.op.implementations if i.backend == CARD]
            together, _ = self.tools.library(files.companions(text, self.sources.all, kernels), "plain", args)
            path = together or path
        if path is None:
            self._not_built(text, said)
        return path

    # -- kernels ------------------------------------------------------------------------------------------------------

    def _kernel(self, one: Implementation) -> Kernel:
        return self._aic(one) if one.backend == CARD else self._interpreter(one)

    def _aic(self, one: Implementation) -> Kernel:
        path = config.found_path(self.op, one.impl)
        if path is None:
            self.findings.add(
                "path", self.op.file, one.impl_line, self.op.type, f"impl of {one.type}: there is no {one.impl}",
                "correct the path; it is a source in C or C++",
            )  # fmt: skip
            return Kernel(one, None, {})
        text = source.read(path)
        args = one.compiler_args
        if any(word in text.code for word in ("float16_ty", "__fp16")):
            args = (*args, "-include", str(HOST / "shims" / "opdb_float16.h"))
        libraries: dict[str, Path] = {}
        made = kernel_lint.lint(text, one.type, args, self.op.type, self.tools, self.findings)
        if made is not None:
            plain, said = self.tools.linked(made)
            if plain is None:
                self._not_built(text, said)
            else:
                libraries = {"plain": plain, **self._built_kernels(text, args, ("threads", "addresses"))}
        return Kernel(one, text, libraries)

    def _interpreter(self, one: Implementation) -> Kernel:
        """The package's own library if it can be called, else one built from the source."""
        op = self.op
        own = (
            self.library
            if one.impl == op.library
            else files.library(op, one.impl, one.impl_line, f"impl of {one.type}", self.findings)
        )
        text = self.sources.defining(one.type, op, one.impl)
        if own is not None and one.type not in own.exports:
            self.findings.add(
                "kernel-symbol", op.file, one.line, op.type, f"{shown(own.path)} does not export {one.type}",
                'define it inside extern "C", or correct \'type\' in the YAML',
            )  # fmt: skip
        body = source.body(text, one.type) if text is not None else None
        if text is not None and body is not None and not body[1].strip():
            self.findings.add("stub", text.path, body[0], op.type, f"{one.type} is empty", "write the kernel")
        there = own is not None and own.usable and one.type in own.exports
        if own is not None and there and files.fits(op, self.interface):
            more = {} if text is None else self._built_kernels(text, (), ("addresses",), quietly=True)
            return Kernel(one, text, {"plain": own.path, **more})
        if text is not None:
            return Kernel(one, text, self._built_kernels(text, (), ("plain", "addresses")))
        if there:
            self.findings.add(
                "not-run", op.file, one.impl_line, op.type,
                f"{one.type} was made with the SDK's headers, whose layouts are not public: not run",
                "put its source beside it",
            )  # fmt: skip
        return Kernel(one, None, {})

    def _built_kernels(
        self, text: Source, args: tuple[str, ...], sanitizers: tuple[str, ...], quietly: bool = False
    ) -> dict[str, Path]:
        """Libraries of a source by sanitizer; links the other sources of its folder if it needs them."""
        made: dict[str, Path] = {}
        aic = [i.type for i in self.op.implementations if i.backend == CARD]
        for sanitizer in sanitizers:
            path, said = self.tools.library([text.path], sanitizer, args)
            if path is None:
                path, said = self.tools.library(
                    files.companions(text, self.sources.all, aic), sanitizer, args
                )
            if path is None:
                if not quietly:
                    self._not_built(text, said)
                break
            made[sanitizer] = path
        return made

    def _not_built(self, text: Source, said: Sequence[Diagnostic]) -> None:
        error = next(d for d in said if d.is_error)
        self.findings.add(
            "build", text.path, error.line, self.op.type, f"does not compile: {error.text}", "correct it"
        )  # fmt: skip

    # -- memory -------------------------------------------------------------------------------------------------------

    def _memory(self, samples: list[Sample]) -> None:
        """Checks memory for the sizes of a sample; without sizes from the user, only scratch buffers and the outputs count."""
        import numpy as np

        tensors: dict[str, int] = {}
        if self.asked.shapes:
            for t in self.op.inputs:
                if t.name in self.asked.shapes:
                    tensors[t.name] = int(np.prod(self.asked.shapes[t.name], dtype=np.int64)) * 2  # float16
            for sample in samples[:1]:
                for t_out, (dtype, dims) in zip(self.op.outputs, sample.outputs, strict=True):
                    width = min(2, np.dtype(DTYPES[dtype]).itemsize)
                    tensors[t_out.name] = int(np.prod(dims, dtype=np.int64)) * width
        memory.check(self.op, tensors, self._tiled(), self.findings)

    def _tiled(self) -> bool:
        """True if the op has a function that may divide its tensors into tiles, as far as is known without calling it."""
        for function in ("customOpSetTileConfig", "customOpSetProperties"):
            body = source.body(self.text, function) if self.text is not None else None
            if body is not None:
                return "".join(body[1].split()) != "returnfalse;"
            if self.text is None and self.library is not None and function in self.library.exports:
                return True
        return False


def _tools(folder: Path, interface: str) -> Toolchain:
    headers = INTERFACES[interface][0]
    own = folder / interface
    own.mkdir()
    return Toolchain(own, [STAND_INS / headers, STAND_INS / "all", HOST, HOST / "shims"])
