"""The memory that the system says this process has; needs nothing but the standard library."""

from __future__ import annotations

import contextlib
import pathlib
import resource
import sys

_STATUS = pathlib.Path("/proc/self/status")


def in_use() -> int:
    """Returns the resident bytes, or where the system does not tell them, their peak."""
    return _status("VmRSS") or _life_peak()


def peak() -> int:
    """Returns the largest number of resident bytes so far."""
    # Not `ru_maxrss` if it can be helped, which starts at what the parent process had.
    return _status("VmHWM") or _life_peak()


def peak_address_space() -> int:
    """Returns the largest size of the address space, or where it is unknown, of resident bytes."""
    return _status("VmPeak") or _life_peak()


def _status(name: str) -> int:
    """Returns a size from the process's status in bytes; 0 where the system has none."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


def _life_peak() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
