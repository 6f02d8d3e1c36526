"""A kernel library for ExecuTorch's runtime: opdb's C kernels as out variants of ATen and of ``torch.ops.qnn``.

``write`` makes a folder that builds without opdb, ``build`` compiles it, ``load`` loads it into the runtime of this
process (docs/reference/executorch-kernels.md).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opdb.core.c_compiler import make
from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.source_folder import write_folder
from opdb.plugins.executorch import env
from opdb.plugins.executorch.codegen import kernel_library
from opdb.plugins.executorch.codegen.glue import KernelForm, NoForm
from opdb.plugins.executorch.codegen.yaml_files import Entry, KernelKey, plain_key
from opdb.plugins.executorch.portable_kernels.out_variants import Kernels
from opdb.plugins.executorch.pte_file import SCALAR_TYPES
from opdb.plugins.packages import c_library
from opdb.spec.catalog import Catalog

MANIFEST = "opdb-executorch-kernels.json"
#: Without a model, kernels that the runtime already has are replaced for these keys: float32 of these ranks.
FLOAT, RANKS = 6, (1, 2, 3, 4)


@dataclass(frozen=True)
class KernelFolder:
    """A folder of sources; ``build`` makes the library."""

    folder: Path
    kernels: Mapping[str, tuple[str, ...]]  # out variant -> its QNN ops
    keys: Mapping[str, tuple[str, ...]]  # out variant -> the keys that its kernel is specialized for
    files: tuple[str, ...]

    @property
    def library(self) -> Path:
        return (self.folder / f"lib{kernel_library.NAME}.so").resolve()


@dataclass(frozen=True)
class Selection:
    """The content of a library, by out variant."""

    entries: tuple[Entry, ...]
    forms: Mapping[str, tuple[KernelForm, ...]]
    others: Mapping[str, str]  # operators of the model without a kernel here -> the reason
    dtypes: Mapping[str, frozenset[str]]  # used in calls by the model; empty: any
    runtime: frozenset[str]  # the operators that the installed runtime has kernels for

    @property
    def missing(self) -> tuple[str, ...]:
        """The operators of the model without any kernel."""
        return tuple(op for op in self.others if op not in self.runtime)


@dataclass(frozen=True)
class Loaded:
    """One kernel of a loaded library.  ``owner``: None, or the library whose kernel stays registered instead."""

    op: str
    key: str | None
    owner: str | None


def runtime_operators() -> frozenset[str]:
    """The operators that have kernels in the runtime of the installed executorch."""
    names = _portable_lib()._get_operator_names()
    return frozenset(str(n) for n in names)


def model_kernels(model: Path) -> dict[str, tuple[KernelKey, ...]]:
    """The operators of a .pte, and the keys that look up their kernels.  Raises OpdbError for another file."""
    from executorch.codegen.tools import selective_build

    try:
        data = model.read_bytes()  # the program reads from it, so keep it alive
    except OSError as error:
        raise OpdbError(f"{model}: {error.strerror}") from None
    if data[4:6] != b"ET":  # flatbuffers' file identifier; ExecuTorch's reader checks nothing
        raise OpdbError(f"{model}: not an ExecuTorch program (.pte)")
    program = selective_build._get_program_from_buffer(data)
    metadata = selective_build._get_io_metadata_for_program_operators(program)
    tensor = 5  # KernelTypes::Tensor of ExecuTorch's schema
    return {
        op: tuple(sorted(KernelKey(tuple((io.dtype, tuple(io.dim_order)) for io in call if io.kernel_type == tensor))
                         for call in calls))
        for op, calls in metadata.items()
    }  # fmt: skip


def select(kernels: Kernels, words: Iterable[str], model: Path | None = None) -> Selection:
    """Selects ``words`` (Kernels.variant) and the operators of ``model``, each with the keys of its calls there.

    Raises OpdbError for a word that cannot be a kernel.
    """
    runtime = runtime_operators()
    held: dict[str, Entry] = {}
    forms: dict[str, tuple[KernelForm, ...]] = {}
    dtypes: dict[str, frozenset[str]] = {}
    for word in words:
        variant = kernels.variant(word)
        try:
            forms[variant.name] = kernels.forms(variant)
        except NoForm as error:
            raise OpdbError(f"{variant.name}: cannot be one QNN op: {error}") from None
        plain = [plain_key(variant, FLOAT, r) for r in RANKS] if variant.name in runtime else []
        held[variant.name] = Entry(variant, tuple(k for k in plain if k is not None))
        dtypes[variant.name] = frozenset()
    others: dict[str, str] = {}
    for name, used in ({} if model is None else model_kernels(model)).items():
        try:
            variant = kernels.variant(name)
            found = kernels.forms(variant)
        except (OpdbError, NoForm) as error:
            others[name] = str(error).removeprefix(f"{name}: ")
            continue
        keys = [k for k in used if k.has_plain_types] if name in runtime else []
        if name in runtime and not keys:
            others[name] = "a key of ExecuTorch cannot have the data types that it is called with"
            continue
        forms[name] = found
        known = held[name].keys if name in held else ()
        held[name] = Entry(variant, tuple(dict.fromkeys((*known, *keys))))
        dtypes.setdefault(
            name, frozenset(SCALAR_TYPES[t] for key in used for t, _ in key.tensors if t in SCALAR_TYPES)
        )
    return Selection(tuple(held[n] for n in sorted(held)), forms, others, dtypes, runtime)


def write(kernels: Kernels, chosen: Selection, folder: Path, force: bool = False) -> KernelFolder:
    """Writes the folder.  Raises OpdbError for files that opdb did not write (source_folder), and an op without a kernel."""
    # Imported here since it needs PyTorch, which an environment without the extra lacks.
    from opdb.plugins.executorch.portable_kernels.kernel_calls import tests_of

    needed = _needed(kernels.catalog, chosen)
    tests = {
        e.variant.name: tests_of(kernels, e.variant, chosen.forms[e.variant.name], needed)
        for e in chosen.entries
    }
    texts = kernel_library.folder(kernels.catalog, chosen.entries, chosen.forms, needed, tests)
    ops = {e.variant.name: tuple(f.op for f in chosen.forms[e.variant.name]) for e in chosen.entries}
    keys = {e.variant.name: tuple(k.text for k in e.keys) for e in chosen.entries}
    write_folder(folder, texts, MANIFEST, {"kernels": ops, "keys": keys}, force)
    return KernelFolder(folder, ops, keys, tuple(texts))


def _needed(catalog: Catalog, chosen: Selection) -> dict[str, frozenset[str]]:
    """Maps each QNN op to the data types that its C kernel must take; empty: all that it supports."""
    parts = []
    for name, forms in chosen.forms.items():
        for form in forms:
            kernel = catalog.ops[form.op].kernel
            parts.append(
                {form.op: chosen.dtypes[name] & frozenset(kernel.dtypes if kernel is not None else ())}
            )
    return c_library.merged(*parts)


def build(made: KernelFolder) -> Path:
    """Runs the folder's Makefile with this Python's executorch.  Raises OpdbError with the compiler's first complaint."""
    make(made.folder, "the kernel library", f"PYTHON={sys.executable}")
    return made.library


class _Record(ctypes.Structure):
    _fields_ = (("op", ctypes.c_char_p), ("key", ctypes.c_char_p), ("owner", ctypes.c_char_p))


@dataclass(frozen=True)
class LoadedLibrary:
    """A kernel library in the runtime of this process; ``kernels`` in YAML order."""

    library: ctypes.CDLL
    kernels: tuple[Loaded, ...]

    def runs(self) -> dict[tuple[str, str | None], tuple[int, int]]:
        """Maps operator and key to the number of calls of the kernel, and how many of them it left to the runtime's
        kernel since the arguments did not fit.
        """
        found = {}
        for i, kernel in enumerate(self.kernels):
            called, left = ctypes.c_uint64(), ctypes.c_uint64()
            self.library.opdb_kernel_runs(ctypes.c_size_t(i), ctypes.byref(called), ctypes.byref(left))
            found[kernel.op, kernel.key] = called.value, left.value
        return found


def load(library: Path) -> LoadedLibrary:
    """Loads the kernels of a built library into the runtime of this process, and reports the outcome of each.

    The runtime's existing kernels stay: two for one operator and key would end the process.  Raises OpdbError
    if the library cannot be loaded.
    """
    try:
        _portable_lib()
        ctypes.CDLL(str(env.runtime_library()), mode=os.RTLD_GLOBAL | os.RTLD_NOW)
        own = ctypes.CDLL(str(Path(library).resolve()), mode=os.RTLD_LOCAL | os.RTLD_NOW)
        records = own.opdb_kernel_records
    except (OSError, AttributeError) as error:
        raise OpdbError(f"{library}: no kernel library that this runtime can load: {error}") from None
    records.restype = ctypes.POINTER(_Record)
    count = ctypes.c_size_t()
    found = records(ctypes.byref(count))
    return LoadedLibrary(own, tuple(_loaded(found[i]) for i in range(count.value)))


def _loaded(record: Any) -> Loaded:
    key, owner = (None if text is None else text.decode() for text in (record.key, record.owner))
    return Loaded(record.op.decode(), key, owner)


def _portable_lib() -> Any:
    try:
        import torch  # noqa: F401  before its libraries are looked for

        # selective_build holds its own runtime, which must resolve its own symbols: import it before another's become global.
        from executorch.codegen.tools import selective_build  # noqa: F401
        from executorch.extension.pybindings import portable_lib
    except ImportError:
        raise MissingExtra("ExecuTorch", "executorch") from None
    return portable_lib
