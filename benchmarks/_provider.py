"""ONNX Runtime's session of a file with its QNN provider: its creation time and the provider's placement of the nodes.

Sessions are made in child processes, which import onnxruntime alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS, AT_ONCE = 600.0, 20


@dataclass(frozen=True)
class Session:
    """``placement``: "all", how many of the nodes the provider takes and which it leaves, or an error.  ``seconds``: time to create it,
    which finalizes the graph; 0 if the process ended.
    """

    placement: str
    seconds: float


def sessions(paths: Sequence[Path], soc_model: int, htp_arch: int) -> Iterator[Session]:
    """A session for each file, on the newest library."""
    from opdb.execute.libraries.onnx_runtime import LIBRARY, PROVIDER
    from opdb.runtime.qnn import libraries

    found = max(
        (one for one in libraries.discover() if (one.folder / LIBRARY).is_file()), key=lambda one: one.version
    )
    options = {"backend_path": str(found.path("HTP")), "soc_model": str(soc_model), "htp_arch": str(htp_arch)}
    options["offload_graph_io_quantization"] = "0"  # a Quantize at the ends is QNN's, too
    while paths:
        job = {
            "models": [str(p) for p in paths[:AT_ONCE]],
            "provider": PROVIDER,
            "library": str(found.folder / LIBRARY),
            "options": options,
        }
        child = subprocess.run(
            [sys.executable, __file__, json.dumps(job)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        lines = [line.split(" ", 2) for line in child.stdout.splitlines() if line.startswith("placed ")]
        yield from (Session(placement, float(seconds)) for _, seconds, placement in lines)
        made = len(lines)
        if made < len(job["models"]):
            yield Session(f"ends with {child.returncode}", 0.0)  # this file ends the process
            made += 1
        paths = paths[made:]


def _child(job: dict[str, Any]) -> None:
    import onnxruntime

    onnxruntime.register_execution_provider_library(job["provider"], job["library"])
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == job["provider"]]
    for model in job["models"]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        options.add_provider_for_devices(devices[:1], job["options"])
        begun = time.monotonic()
        try:
            session = onnxruntime.InferenceSession(model, options)
            seconds, text = time.monotonic() - begun, _placement(session, job["provider"])
        except Exception as error:  # of ONNX Runtime
            seconds, text = 0.0, f"error: {str(error).splitlines()[0][:120]}"
        print(f"placed {seconds:.3f} {text}", flush=True)
    os._exit(0)  # vendor libraries crash now and then while they are unloaded


def _placement(session: Any, provider: str) -> str:
    counts: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for part in session.get_provider_graph_assignment_info():
        nodes = part.get_nodes()
        counts[part.ep_name] += len(nodes)
        if part.ep_name != provider:
            left.update(n.op_type for n in nodes)
    if not left:
        return "all"
    return f"{counts[provider]} of {sum(counts.values())}, not {', '.join(sorted(left))}"


if __name__ == "__main__":
    _child(json.loads(sys.argv[1]))
