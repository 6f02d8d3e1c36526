"""The executors of nodes of a Cloud AI package, for aic_ops.py: this machine, QEMU, the program of ``opdb aic check``."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import numpy as np

from opdb.catalog.store import read_catalog
from opdb.core.c_compiler import compiler_command
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig
from opdb.core.settings import specs_folder
from opdb.execute.packages import package
from opdb.plugins.cloud_ai import conformance
from opdb.plugins.cloud_ai.card import HexagonCard
from opdb.plugins.cloud_ai.check import host, kernels
from opdb.plugins.cloud_ai.check.check import STAND_INS
from opdb.plugins.cloud_ai.check.toolchain import Toolchain
from opdb.plugins.cloud_ai.codegen import aic
from opdb.plugins.cloud_ai.node_layout import DATA_TYPES, Array, Node
from opdb.plugins.hexagon import Server
from opdb.plugins.packages import c_library
from opdb.spec.definitions import CompiledOp

#: A program under a sanitizer, on a machine that has other work.
SECONDS = 120.0


class Executor:
    """A context manager for one op of a package that opdb wrote.  Raises OpdbError for an op that cannot be built."""

    entry: conformance.Entry
    optimize = "-O2"  # the optimization level for ``needs``

    def __init__(self, folder: Path, api: str, op: str) -> None:
        self.folder, self.api, self.entry = folder, api, conformance.entries(folder)[op]
        self._open = ExitStack()

    @staticmethod
    def needs(ops: Sequence[CompiledOp]) -> list[str]:
        """The targets of the package's Makefile that this executor needs."""
        return []

    def unfit(self, config: OpConfig) -> str:
        """The reason this executor cannot run a node that the package accepts; "" if it can."""
        return ""

    def runs(self, config: OpConfig, inputs: Sequence[Array]) -> Iterator[tuple[str, conformance.Ran]]:
        """Yields each run and its place.  Raises OpdbError for any other error."""
        raise NotImplementedError

    def equal(
        self, config: OpConfig, inputs: Sequence[Array], made: Sequence[Array], wanted: Sequence[Array]
    ) -> bool:
        """True if a run's bits equal those of the same C code called from Python, which computed ``wanted``."""
        return same(made, wanted)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()


class Machine(Executor):
    """Runs the functions, the host's kernel, and the card's kernel in four threads."""

    def __init__(self, folder: Path, api: str, op: str) -> None:
        super().__init__(folder, api, op)
        self._package = conformance.Package(folder, api, op)

    @staticmethod
    def needs(ops: Sequence[CompiledOp]) -> list[str]:
        return ["all", "card"]

    def runs(self, config: OpConfig, inputs: Sequence[Array]) -> Iterator[tuple[str, conformance.Ran]]:
        good, log = self._package.verify(config)
        if not good:
            raise OpdbError(f"verify: {log}")
        shapes, log = self._package.infer(config)
        if shapes is None or [s for _, s in shapes] != [t.shape for t in config.outputs]:
            raise OpdbError(f"infer: {shapes} {log}")
        if self._package.select(config, "AIC") != f"{config.op}AIC":
            raise OpdbError("select")
        yield "host", self._package.on_host(config, inputs)
        yield "card", self._package.on_card(config, inputs)


class Unfused(Executor):
    """An executor without fused multiply-add, which gcc -O2 uses in the installed library if the machine has it."""

    _plain: Server | None = None

    def equal(
        self, config: OpConfig, inputs: Sequence[Array], made: Sequence[Array], wanted: Sequence[Array]
    ) -> bool:
        """Compares differing bits with a build of the kernel that does not fuse either."""
        if same(made, wanted):
            return True
        if self._plain is None:
            self._plain = self._open.enter_context(self._without_clones(config.op))
        return same(made, self._plain.run(config, inputs))

    def _without_clones(self, op: str) -> Server:
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
        library = c_library.write(read_catalog(specs_folder()), {op: frozenset()}, folder)
        server = Path(str(files("opdb.plugins.hexagon"))) / "c" / "server.c"
        flags = ["-std=gnu11", "-O1", "-DOPDB_NO_CLONES", "-ffp-contract=off", "-Iinclude", "-Isrc/kernels"]
        sources = [f for f in library.files if f.endswith(".c")]
        package.compiled(
            folder, op, [*compiler_command(), *flags, *sources, str(server), "-lm", "-o", "server"]
        )
        return Server([str(folder / "server")])


class Qemu(Unfused):
    """QEMU with little optimization, which compiles twice as fast and gives the same bits."""

    def __init__(self, folder: Path, api: str, op: str) -> None:
        super().__init__(folder, api, op)
        flags = ["-O1" if f == "-O3" else f for f in aic.COMPILER_ARGS]
        made = folder / "hexagon" / f"{op}.elf"
        self._card = self._open.enter_context(HexagonCard(folder, api, op, made, flags))

    def runs(self, config: OpConfig, inputs: Sequence[Array]) -> Iterator[tuple[str, conformance.Ran]]:
        ran = self._card.run(config, inputs)
        assert self._card.last is not None
        if self._card.last.stack > aic.CARD_STACK:
            raise OpdbError(f"{self._card.last.stack} bytes of stack")
        yield "QEMU", ran


class Checker(Unfused):
    """Runs the card's kernel under a sanitizer; of the functions, only infer is called, once per case."""

    sanitizer, optimize = "", "-O0"

    def __init__(self, folder: Path, api: str, op: str) -> None:
        super().__init__(folder, api, op)
        self._scratch = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
        headers = [STAND_INS / host.INTERFACES[api][0], STAND_INS / "all", host.HOST, host.HOST / "shims"]
        tools = Toolchain(self._scratch, headers)
        host.SECONDS, self._host = SECONDS, host.Host(api, tools)
        self._symbol, source = self.entry.kernels["AIC"]
        self._source = source.resolve()
        library, said = tools.library([self._source], self.sanitizer, aic.COMPILER_ARGS)
        if library is None:
            raise OpdbError(next(d.text for d in said if d.is_error))
        self._library = library

    @staticmethod
    def needs(ops: Sequence[CompiledOp]) -> list[str]:
        return [aic.functions_library(op.name) for op in ops]

    def unfit(self, config: OpConfig) -> str:
        return "outputs of several encodings" if len({t.quant for t in config.outputs}) > 1 else ""

    def runs(self, config: OpConfig, inputs: Sequence[Array]) -> Iterator[tuple[str, conformance.Ran]]:
        to = self._scratch / "outputs.bin"
        answer = self._host.ask(
            self.entry.functions.resolve(), self._node(config), ["infer", f"run AIC {kernels.FILLS[0]}"],
            kernel=(self._library, self._symbol), inputs=[np.ascontiguousarray(a) for a in inputs], outputs_file=to,
            sanitizer=self.sanitizer,
        )  # fmt: skip
        if answer.died:
            words = host.sanitizer_report(answer.printed, [self._source]) or (answer.died, "", 0)
            raise OpdbError(f"{words[0]}, {Path(words[1]).name}:{words[2]}")
        raw, outputs = to.read_bytes(), []
        for t in config.outputs:
            kind = np.dtype(BY_SHORT[t.dtype].numpy)
            size = int(np.prod(t.shape, dtype=np.int64)) * kind.itemsize
            outputs.append(np.frombuffer(raw[:size], kind).reshape(t.shape))
            raw = raw[size:]
        yield self.sanitizer, conformance.Ran(outputs, answer.first("barriers")["barriers"], answer.printed)

    def _node(self, config: OpConfig) -> host.Node:
        node = Node(self.api, config)
        n_in, n_out, n_params = node.counts
        encoded = node.outputs[0]
        return host.Node(
            tuple(
                host.TensorGiven(name, t.dtype, tuple(t.sizes[: t.rank]), t.scale, t.offset)
                for (name, _), t in zip(self.entry.inputs, node.inputs[:n_in], strict=False)
            ),
            self.entry.outputs[:n_out],
            tuple(_param(p) for p in node.params[:n_params]),
            tuple((f"scratch{i}", size) for i, size in enumerate(self.entry.scratch)),
            output_scale=encoded.scale,
            output_offset=encoded.offset,
        )


class Threads(Checker):
    sanitizer = "threads"


class Addresses(Checker):
    sanitizer = "addresses"


EXECUTORS: dict[str, type[Executor]] = {
    "machine": Machine,
    "qemu": Qemu,
    "threads": Threads,
    "addresses": Addresses,
}


def same(made: Sequence[Array], wanted: Sequence[Array]) -> bool:
    pairs = zip(made, wanted, strict=True)
    return all(a.tobytes() == np.ascontiguousarray(b).tobytes() for a, b in pairs)


def _param(p: Any) -> host.ParamGiven:
    of = {"DTFloat32": np.float32, "DTBool": np.uint8}.get(DATA_TYPES[p.dtype], np.int32)
    raw = ctypes.string_at(p.data, np.dtype(of).itemsize * max(p.size, 1))
    return host.ParamGiven(p.name.decode(), p.dtype, p.size, tuple(v.item() for v in np.frombuffer(raw, of)))
