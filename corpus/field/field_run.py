"""Runs `opdb check`, `opdb compile` and `opdb run` on a case as a user types them; compares with PyTorch or ONNX Runtime."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from field_case import Case

ROOT = Path(__file__).parents[2]
Arrays = dict[str, np.ndarray[Any, Any]]
Done = subprocess.CompletedProcess[str]
Command = Callable[[list[str], Mapping[str, str], Path, str | None, float], Done]
#: Inputs of these names are between 0 and this, others are normally distributed.
UNIFORM = {"pixels": 255.0, "small": 0.05}


@dataclass
class Outcome:
    """The output of the commands, True if a file was written, and the error of its results relative to the largest value."""

    check: Done
    compile: Done
    run: Done | None
    written: bool
    error: float | None

    @property
    def said(self) -> str:
        return "".join(d.stdout + d.stderr for d in (self.check, self.compile))


def outcome(case: Case, folder: Path, run: Command) -> Outcome:
    """Runs the commands on a case.  ``run``: tests/forked_command.run."""

    def opdb(*arguments: str) -> Done:
        return run([*arguments], {**os.environ, "COLUMNS": "200"}, ROOT, None, 500)

    of_onnx = case.make.__module__.endswith("field_onnx")
    model, given, wanted = (_onnx if of_onnx else _pytorch)(case, folder)
    file = folder / f"m.{case.form.rpartition('.')[2]}"
    pte = file.suffix == ".pte"
    chosen = [o.replace("{inputs}", str(folder / "inputs.npz")) for o in case.compile_options]
    check = opdb("check", model, *case.options, *(["--executorch"] if pte else []))
    emulated = [] if pte else ["--execution", case.execution]
    compiled = opdb("compile", model, *case.options, *emulated, *chosen, "-o", str(file))
    if not case.results or not file.exists():
        return Outcome(check, compiled, None, file.exists(), None)
    results = folder / "out.npz"
    more = ["--steps", str(case.steps)] if case.steps > 1 else ["--real"] if chosen and not pte else []
    ran = opdb("run", str(file), *_files(given, folder, of_onnx), *more, "--outputs", str(results))
    kept = re.findall(r"the output (\S+) is the next run's", compiled.stdout)
    error = None if ran.returncode else off([v for n, v in np.load(results).items() if n not in kept], wanted)
    return Outcome(check, compiled, ran, True, error)


def off(made: list[Any], wanted: list[Any]) -> float:
    """The largest difference as a fraction of the largest wanted value; infinite if types or shapes differ.

    QNN's tensors have at least one dimension: a scalar has shape [1].
    """
    wanted = [np.atleast_1d(w) for w in wanted]
    if [np.atleast_1d(m).shape for m in made] != [w.shape for w in wanted] or [m.dtype for m in made] != [
        w.dtype for w in wanted
    ]:
        return float("inf")
    parts = [0.0]
    for m, w in zip(made, wanted, strict=True):
        a, b = m.astype(np.float64), w.astype(np.float64)
        parts.append(float(np.abs(a - b).max() / (np.abs(b).max() or 1)))
    return float(np.nan_to_num(max(parts), nan=np.inf))


def _files(given: Arrays, folder: Path, named: bool) -> list[str]:
    if named:
        return ["--inputs", str(folder / "inputs.npz")] if given else []
    for name, value in given.items():
        np.save(folder / f"{name}.npy", value)
    return [option for name in given for option in ("--inputs", str(folder / f"{name}.npy"))]


def _pytorch(case: Case, folder: Path) -> tuple[str, Arrays, list[Any]]:
    """The model's name, its inputs in order, and PyTorch's results, of all steps if there are several."""
    module, inputs = case.make()
    model = f"{Path(__file__).with_name('field_pytorch.py')}:{case.name}"
    if case.form.startswith(".pt2"):
        model = str(folder / "m.pt2")
        torch.export.save(torch.export.export(module, inputs), model)
    given = {f"input{i}": x.numpy() for i, x in enumerate(inputs)}
    if not case.results:
        return model, given, []
    kept, wanted = deepcopy(module), []
    with torch.no_grad():
        for _ in range(case.steps):
            made = kept(*inputs)
            wanted.append([t.clone().numpy() for t in (made if isinstance(made, tuple) else (made,))])
    return model, given, wanted[0] if case.steps == 1 else [np.stack(s) for s in zip(*wanted, strict=True)]


def _onnx(case: Case, folder: Path) -> tuple[str, Arrays, list[Any]]:
    """The file, its inputs by name, and ONNX Runtime's results."""
    path, made = folder / "m.onnx", case.make()
    onnx.save(made, path)
    if not case.results:
        return str(path), {}, []
    rng, given = np.random.default_rng(1), {}
    for value in made.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        drawn = (
            rng.random(shape) * UNIFORM[value.name] if value.name in UNIFORM else rng.standard_normal(shape)
        )
        given[value.name] = (
            rng.integers(0, 120, shape).astype(kind) if kind.kind in "iu" else drawn.astype(kind)
        )
    np.savez(folder / "inputs.npz", **given)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return str(path), given, session.run(None, given)
