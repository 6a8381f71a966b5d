"""Turning a quantized model's observers: calibration, freezing, switching off, reporting."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tft_keras.errors import InputError
from tft_keras.quantization.leaves import QuantizedLeaf
from tft_keras.quantization.observers import Observers, grid


def observers_of(model: keras.Model) -> dict[str, Observers]:
    """Returns the model's observers by the path of the layer that they are in.

    Raises:
        InputError: the model is not quantized.
    """
    found = {}
    for layer in _layers(model):
        if isinstance(layer, Observers):
            path = layer.weights[0].name.split("/")[1:-2]
            found["/".join(path)] = layer
    if not found:
        raise InputError(
            f"Observers are in quantized models only. Received: model={model.name!r}, which is "
            "not. Make it one by tft_keras.quantization.quantize_model(model)."
        )
    return found


def _layers(model: keras.Model) -> list[keras.layers.Layer]:
    return list(model._flatten_layers(include_self=False))  # no public walk goes below `layers`


@contextlib.contextmanager
def observer_mode(model: keras.Model, mode: str) -> Iterator[None]:
    """Runs eagerly, or traces, with all observers in `quantize`, `calibrate` or `off` mode.

    Leaves hand out plain weights in the latter two.
    """
    observers = list(observers_of(model).values())
    leaves = [layer for layer in _layers(model) if isinstance(layer, QuantizedLeaf)]
    before = [observer.mode for observer in observers], [leaf.quantizes for leaf in leaves]
    for observer in observers:
        observer.mode = mode
    for leaf in leaves:
        leaf.quantizes = mode == "quantize"
    try:
        yield
    finally:
        for observer, value in zip(observers, before[0], strict=True):
            observer.mode = value
        for leaf, value in zip(leaves, before[1], strict=True):
            leaf.quantizes = value


@contextlib.contextmanager
def listening(model: keras.Model, listener: Callable[[str, tf.Tensor], None]) -> Iterator[None]:
    """Within the `with`, calls `listener(name, tensor)` for every observed tensor, in order.

    Names are those of `observer_report`. Tensors within a loop are seen in eager execution only.
    """
    layers = observers_of(model)
    for path, layer in layers.items():
        layer.listener = lambda name, tensor, path=path: listener(f"{path}/{name}", tensor)
    try:
        yield
    finally:
        for layer in layers.values():
            layer.listener = None


def calibrate(model: keras.Model, batches: Iterable[Any], count: int | None = None) -> int:
    """Shows the model some batches, unquantized, so that its observers know their ranges.

    Args:
        model: a quantized one.
        batches: of inputs, or of tuples whose first element they are.
        count: how many to take at most.

    Returns:
        How many batches were seen.

    Raises:
        InputError: there was none.
    """
    run = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
    seen = 0
    with observer_mode(model, "calibrate"):
        for batch in itertools.islice(batches, count):
            run(batch[0] if isinstance(batch, tuple) else batch)
            seen += 1
    if not seen:
        raise InputError("Calibration needs at least one batch. Received: batches without any.")
    return seen


def freeze_observers(model: keras.Model) -> None:
    """Stops all ranges from moving; takes effect in what is traced already.

    Raises:
        InputError: observers that never saw data cannot be frozen.
    """
    observers = observers_of(model)
    unseen = [f"{path}/{name}" for path, layer in observers.items() for name in layer.unseen()]
    if unseen:
        named = ", ".join(unseen[:5]) + (f" and {len(unseen) - 5} more" if len(unseen) > 5 else "")
        raise InputError(
            f"Observers are frozen after they have seen data. Received: {len(unseen)} without "
            f"any: {named}. Call tft_keras.quantization.calibrate(model, batches) first."
        )
    for layer in observers.values():
        layer.state["frozen"].assign(1)


def unfreeze_observers(model: keras.Model) -> None:
    """Lets all ranges move again while training."""
    for layer in observers_of(model).values():
        layer.state["frozen"].assign(0)
    # What `fit` has traced may look for extremes where live observers look for percentiles.
    model.train_function = None


def observers_frozen(model: keras.Model) -> bool:
    """Returns whether all observers are frozen."""
    return all(bool(layer.state["frozen"].numpy()) for layer in observers_of(model).values())


def observer_report(model: keras.Model) -> list[dict[str, Any]]:
    """Returns for each observer its name, range, int8 grid, samples and state.

    Returns:
        Dicts of `name`, `min`, `max`, `scale`, `zero_point`, `samples`, and `state`: `fixed`,
        `frozen`, `live` or `unseen`.
    """
    rows = []
    for path, layer in observers_of(model).items():
        state = {key: variable.numpy() for key, variable in layer.state.items()}
        for place, name in enumerate(layer.names):
            low, high = float(state["min_var"][place]), float(state["max_var"][place])
            samples = int(state["samples"][place])
            scale, zero_point = grid(low, high)
            if layer.fixed[place]:
                kind = "fixed"
            elif not samples:
                kind = "unseen"
            else:
                kind = "frozen" if state["frozen"] else "live"
            rows.append(
                {
                    "name": f"{path}/{name}",
                    "min": low,
                    "max": high,
                    "scale": scale,
                    "zero_point": zero_point,
                    "samples": samples,
                    "state": kind,
                }
            )
    return rows


def report_table(rows: list[dict[str, Any]]) -> str:
    """Returns an observer report as aligned text."""
    header = ("observer", "min", "max", "scale", "zero point", "samples", "state")
    cells = [header]
    for row in rows:
        numbers = (f"{row[key]:.5g}" for key in ("min", "max", "scale"))
        cells.append(
            (row["name"], *numbers, str(row["zero_point"]), str(row["samples"]), row["state"])
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    lines = []
    for line in cells:
        name, *numbers, state = (cell for cell in line)
        middle = "  ".join(n.rjust(w) for n, w in zip(numbers, widths[1:-1], strict=True))
        lines.append(f"{name.ljust(widths[0])}  {middle}  {state}")
    return "\n".join(lines)
