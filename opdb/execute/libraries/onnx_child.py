"""The child process of opdb.execute.libraries.onnx_runtime: one session, one run."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

import numpy as np

from opdb.core.errors import OpdbError
from opdb.core.pool.parent import leave_with_parent
from opdb.execute.libraries.onnx_runtime import INPUTS, JOB, OUTPUTS, RESULT, Settings

WARNINGS = 2


def main(folder: Path) -> None:
    leave_with_parent()
    job = json.loads((folder / JOB).read_text())
    names: list[str] = []
    error = ""
    try:
        import onnxruntime

        onnxruntime.set_default_logger_severity(WARNINGS)
        options = Settings(**job["settings"]).session_options()
        options.log_severity_level = WARNINGS
        providers = None if job["settings"]["provider_library"] else ["CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(job["model"], options, providers=providers)
        names = [o.name for o in session.get_outputs()]
        with np.load(folder / INPUTS) as given:
            made = session.run(None, dict(given))
        np.savez(folder / OUTPUTS, **{f"o{i}": value for i, value in enumerate(made)})
    except OpdbError as why:
        error = str(why)
    except Exception as why:  # ONNX Runtime's own classes
        error = f"ONNX Runtime: {str(why).strip().splitlines()[0]}"
    (folder / RESULT).write_text(json.dumps({"outputs": names, "error": error}))
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)  # vendor libraries sometimes crash while they are unloaded; the result is written


if __name__ == "__main__":
    main(Path(sys.argv[1]))
