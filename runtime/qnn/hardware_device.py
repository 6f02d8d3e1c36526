"""A device as a QNN library describes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HardwareDevice:
    """A device from ``QnnDevice_getPlatformInfo``.  Fields that only HTP reports are None elsewhere.

    The emulation on x86-64 always reports its default chip, SM8350 with 4 MB, whatever device is open (2.47, 2.51).
    """

    device_id: int
    device_type: int
    cores: int
    soc_model: int | None = None
    arch: int | None = None  # e.g. 68 for v68
    vtcm_mb: int | None = None
    signed_pd: bool | None = None
    dlbc: bool | None = None
