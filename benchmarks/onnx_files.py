"""Real ONNX files: seconds of `opdb check`, of `opdb compile`, and of ONNX Runtime's session with its QNN provider.

    python benchmarks/onnx_files.py FOLDER [NAME...]

FOLDER has the .onnx files of the wheels silero-vad 6.2.3, rapidocr-onnxruntime 1.4.4, magika 1.0.3, basic-pitch 0.4.0, nudenet
3.4.2, ddddocr 1.6.1 (`pip download --no-deps`), and onnx (backend/test/data/light).  `check` and `compile` are whole processes,
which import PyTorch; "library" is the part of `compile` in which QNN opens, builds, finalizes and writes.  The provider's seconds
cover only the creation of the session (the same chip, QNN 2.51's library, its context not written), followed by the number of nodes
it takes.  The first line has the seconds of a process that imports PyTorch and ends at once.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx
from _provider import sessions

SOC = "SM8650"
SOC_MODEL, HTP_ARCH = 57, 75  # of SM8650
#: File -> the sizes of its input's dimensions, where it leaves some open.
SIZES = {
    "320n": (1, 3, 320, 320), "ch_PP-OCRv4_det_infer": (1, 3, 640, 640), "ch_PP-OCRv4_rec_infer": (1, 3, 48, 320),
    "ch_ppocr_mobile_v2.0_cls_infer": (1, 3, 48, 192), "common": (1, 1, 64, 160), "common_old": (1, 1, 64, 160),
    "model": (1, 2048), "nmp": (1, 43844, 1), "silero_vad_half": (1, 576), "silero_vad_16k_op15": (1, 576),
    "silero_vad_16k_sequence": (4, 576), "silero_vad_op18_ifless": (1, 576),
}  # fmt: skip
TIMEOUT = 900
#: The line of an `opdb compile` stage, and the stages that the library spends.
STAGE = re.compile(r"^(\w+)(?: \S+)?: ([\d.]+) s$", re.MULTILINE)
LIBRARY = ("open", "validate", "build", "finalize", "save")


def timed(*arguments: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "opdb", *arguments], capture_output=True, text=True, timeout=TIMEOUT
    )
    return time.monotonic() - started, done


def fixed(path: Path, folder: Path) -> Path:
    """The file with all dimensions of its inputs fixed."""
    model = onnx.load(str(path))
    known = {w.name for w in model.graph.initializer}
    free = [i for i in model.graph.input if i.name not in known]
    for dim, size in zip(free[0].type.tensor_type.shape.dim, SIZES.get(path.stem, ()), strict=False):
        dim.dim_value = size
    for value in free[1:]:
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_value = max(dim.dim_value, 1)
    for value in (*model.graph.value_info, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    made = folder / path.name
    onnx.save(model, str(made))
    return made


def line(path: Path, folder: Path) -> str:
    model = fixed(path, folder)
    checked, check = timed("check", str(model), "--soc", SOC)
    verdict = (check.stdout.splitlines() or check.stderr.strip().splitlines()[-1:] or [""])[0]
    took, built = timed("compile", str(model), "--soc", SOC, "-o", str(folder / "x.bin"))
    library = sum(float(s) for stage, s in STAGE.findall(built.stdout + built.stderr) if stage in LIBRARY)
    compiled = f"{took:.1f} | {library:.1f}" if built.returncode == 0 else "- | -"
    session = next(sessions([model], SOC_MODEL, HTP_ARCH))
    return f"| {path.stem} | {verdict} | {checked:.1f} | {compiled} | {session.seconds:.1f} | {session.placement} |"


def main(folder: Path, names: list[str]) -> None:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import os, torch; os._exit(0)"], check=True)
    print(f"import torch: {time.monotonic() - started:.1f} s")
    print(
        "| file | verdict | check, s | compile, s | library, s | provider, s | its nodes |\n|---|---|---|---|---|---|---|"
    )
    for path in sorted(folder.glob("*.onnx")):
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as made:
                print(line(path, Path(made)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
