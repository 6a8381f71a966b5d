"""Peak memory of what runs between two moments: the process's on the CPU, the device's on a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import pathlib
import resource

import tensorflow as tf

from tft_keras import process_memory

_CLEAR_PEAK = pathlib.Path("/proc/self/clear_refs")


class PeakMemory:
    """Reads memory in use and its peak since the last `start`.

    On a GPU these are what TensorFlow's allocator has handed out (which is exact), on the CPU the
    process's resident pages, since that is what the system kills a process for. Where the system
    cannot forget an earlier peak (only Linux can), the peak is that of the process's whole life.
    """

    def __init__(self) -> None:
        gpus = tf.config.list_logical_devices("GPU")
        self.device = gpus[0].name.removeprefix("/device:") if gpus else "CPU:0"

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("GPU")

    def in_use(self) -> int:
        """Returns the bytes in use now, after giving back what was freed but kept."""
        gc.collect()
        if self.on_gpu:
            return tf.config.experimental.get_memory_info(self.device)["current"]
        # The allocator of small blocks keeps freed pages: they would hide part of the next peak.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        return process_memory.in_use()

    def start(self) -> None:
        """Forgets the peak so far."""
        if self.on_gpu:
            tf.config.experimental.reset_memory_stats(self.device)
            return
        with contextlib.suppress(OSError):
            _CLEAR_PEAK.write_text("5")

    def peak(self) -> int:
        """Returns the largest number of bytes in use since `start`."""
        if self.on_gpu:
            return tf.config.experimental.get_memory_info(self.device)["peak"]
        return process_memory.peak()

    def limited_peak(self) -> int:
        """Returns the largest number of bytes in use of the memory that limits the process.

        This is the device's on a GPU, the address space if that has a limit (`ulimit -v`), and else
        the resident pages.
        """
        limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        if limited and not self.on_gpu:
            return process_memory.peak_address_space()
        return self.peak()
