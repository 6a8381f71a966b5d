"""A TensorBoard profile of training steps, and the operations that took longest in it."""

from __future__ import annotations

import collections
import pathlib
import re
from collections.abc import Callable
from typing import Any

STEPS = 2
_COMPILED = re.compile(r"_fusion|^wrapped_")


def most_expensive(
    step: Callable[[], Any], folder: str, count: int = 10
) -> tuple[tuple[str, float], ...]:
    """Profiles some steps and returns the most expensive operations.

    Args:
        step: runs one training step to its end.
        folder: where TensorBoard shall find the profile.
        count: how many operations.

    Returns:
        Kind of operation and its seconds per step, all threads together, the largest first.
    """
    import tensorflow as tf

    tf.profiler.experimental.start(folder)
    for _ in range(STEPS):
        step()
    tf.profiler.experimental.stop()
    newest = max(pathlib.Path(folder).rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime)
    totals = seconds_by_operation(newest.read_bytes())
    return tuple((name, seconds / STEPS) for name, seconds in totals.most_common(count))


def seconds_by_operation(profile: bytes) -> collections.Counter[str]:
    """Adds up a profile's events by kind of operation.

    TensorFlow's operations are events named `name:Kind`; passes that XLA compiled have names of
    their own. Other events enclose these.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    totals: collections.Counter[str] = collections.Counter()
    for plane in xplane_pb2.XSpace.FromString(profile).planes:
        names = {number: event.name for number, event in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                kind = _kind(names[event.metadata_id])
                if kind:
                    totals[kind] += event.duration_ps / 1e12
    return totals


def _kind(name: str) -> str:
    if re.search(r"[^:]:[^:]+$", name):
        kind = name.rpartition(":")[2]
        return "" if kind.lstrip().startswith("__inference") else kind
    return f"compiled {name}" if _COMPILED.search(name) else ""
