"""What pyproject.toml cannot say: the map from folders to packages, and what is compiled."""

from __future__ import annotations

import os
import shutil
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

#: Import name -> folder.  generated/c has no __init__.py: it is found in an installed opdb only.
ROOTS = {
    "opdb": "opdb",
    "opdb.codegen": "codegen",
    "opdb.generated": "generated/python",
    "opdb.generated.c": "generated/c",
    "opdb.migrations": "migrations",
    "opdb.runtime": "runtime",
    "opdb.specs": "specs",
}
#: Modules that cffi makes: the script and its variable.
CFFI_MODULES = ["runtime/build_cffi.py:ffibuilder", "runtime/qnn/build_cffi.py:ffibuilder"]
FLAGS = ["-std=c99", "-O3", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
#: A change in any of them compiles every module again: generated files are included, not listed.
C_SOURCES = sorted(str(p) for root in ("runtime", "generated/c") for p in Path(root).rglob("*.[ch]"))
#: `make` installs first and compiles afterwards, once: pip would compile everything in a folder that it throws away.
COMPILES = os.environ.get("OPDB_COMPILE") != "later"
#: Compiled into the checkout by an editable install: never data.
NOT_DATA = ["*.so", "*.o", "*.py[co]", ".*"]


class SharedLibrary(Extension):
    """A plain shared library ``lib<name>.so`` for dlopen: no Python module, no suffix of the ABI."""


class BuildExt(build_ext):
    """Builds extensions and plain shared libraries, and says at once what is missing to build."""

    def build_extensions(self) -> None:
        compiler = self.compiler.compiler_so[0]
        if shutil.which(compiler) is None:
            raise SystemExit(
                f"opdb: no C compiler: '{compiler}' is not on PATH; install one (Debian: apt-get install gcc "
                "libc6-dev) or name yours in CC"
            )
        header = Path(sysconfig.get_path("include"), "Python.h")
        if not header.exists():
            raise SystemExit(f"opdb: {header} is missing; install it (Debian: apt-get install python3-dev)")
        for ext in self.extensions:
            ext.depends = [*ext.depends, *C_SOURCES]
        self._compile_on_all_cores()
        super().build_extensions()

    def _compile_on_all_cores(self) -> None:
        """A module has some hundred files, which setuptools compiles one after the other."""
        one_by_one = self.compiler.compile

        def compile_all(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                objects = threads.map(lambda source: one_by_one([source], **options), sources)
                return [o for made in objects for o in made]

        self.compiler.compile = compile_all

    def get_ext_filename(self, fullname: str) -> str:
        if isinstance(self.ext_map.get(fullname), SharedLibrary):
            return os.path.join(*fullname.split(".")) + ".so"
        return super().get_ext_filename(fullname)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return [] if isinstance(ext, SharedLibrary) else super().get_export_symbols(ext)


def packages() -> dict[str, str]:
    """Every folder that holds files, as a package: import name -> folder."""
    found = {}
    for name, root in ROOTS.items():
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(f for f in folders if f.isidentifier() and f != "__pycache__")
            if files or folder == root:
                tail = os.path.relpath(folder, root).split(os.sep)
                found[".".join([name, *(t for t in tail if t != ".")])] = folder
    return found


setup(
    packages=list(packages()),
    package_dir=packages(),
    package_data={"": ["*"]},
    exclude_package_data={"": NOT_DATA},
    cffi_modules=CFFI_MODULES if COMPILES else [],
    ext_modules=[
        SharedLibrary(
            "opdb.runtime.forward.libopdb_qnn_forward",
            sources=["runtime/forward/qnn_forward.c", "runtime/forward/estimates.c"],
            extra_compile_args=FLAGS,
            # ExecuTorch opens it by its path and then by the name: the vendor's, which has that name, must not answer.
            extra_link_args=["-Wl,-soname,libQnnHtp.so"],
        )
    ]
    if COMPILES
    else [],
    cmdclass={"build_ext": BuildExt},
    # What is compiled uses Python's stable ABI (cffi's API mode), or no Python at all: one wheel serves 3.11 and all later versions.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    zip_safe=False,
)
