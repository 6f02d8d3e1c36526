"""A bare root of Debian, and commands in it: what tools/wheels and tools/first-hour share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
MIRROR = "http://deb.debian.org/debian"
#: Enters the root $0 and runs $3 in bash in its folder $2.  $1: folders of packages that pip looks into, mounted at the same
#: place.  The mounts live as long as the command.
ENTER = """mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev"
for folder in $1; do
    if [ -d "$folder" ]; then mkdir -p "$0/$folder" && mount --bind "$folder" "$0/$folder"; fi
done
exec chroot "$0" bash -c 'cd "$0" && eval "$1"' "$2" "$3"
"""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def run(command: Sequence[str | Path], **more: object) -> subprocess.CompletedProcess[str]:
    """Runs ``command``; ends the script with its output if it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done


def debian(suite: str) -> Path:
    """A bare root of ``suite`` with Debian's own Python; kept for the next time."""
    root = WORK / "roots" / suite
    if not (root / "usr/bin/python3").exists():
        if os.geteuid() or shutil.which("debootstrap") is None:
            sys.exit("a bare root needs root and debootstrap (Debian: apt-get install debootstrap)")
        root.mkdir(parents=True, exist_ok=True)
        wanted = "--include=ca-certificates,python3,python3-venv"
        run(["debootstrap", "--variant=minbase", wanted, suite, root, MIRROR])
    for file in ("/etc/resolv.conf", CERTIFICATES):
        if Path(file).exists():  # names and certificates are those of this machine
            shutil.copy(file, root / file[1:])
    return root


def entering(root: Path, folder: str, command: str) -> list[str]:
    """The command line that runs ``command`` in ``folder`` of ``root``."""
    return [
        "unshare",
        "--mount",
        "sh",
        "-c",
        ENTER,
        str(root),
        os.environ.get("PIP_FIND_LINKS", ""),
        folder,
        command,
    ]


def variables(home: str) -> dict[str, str]:
    """The environment in a root: nothing of this machine but where pip looks for packages; ``home``/venv first in PATH."""
    kept = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "PIP_FIND_LINKS")
    env = {k: v for k, v in os.environ.items() if k in kept}
    env |= {
        "HOME": home,
        "PATH": f"{home}/venv/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
    }
    return env | dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), CERTIFICATES)
