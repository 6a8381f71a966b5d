"""Every observed tensor beside its int8 counterpart, and every operator by itself."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from export.census import Operator, Tensor, take_census
from export.device_model import device_model
from export.runtime import quantize
from tft_keras.data.windows import Inputs
from tft_keras.model import TemporalFusionTransformer
from tft_keras.quantization import listening

# Of scales that are equal but for their rounding to float32.
_SAME_SCALE = 1e-5
_MOVING = {"RESHAPE", "TRANSPOSE", "STRIDED_SLICE", "SPLIT", "UNPACK", "PACK", "CONCATENATION"}


class Execution:
    """One run of an int8 file with all of its tensors kept.

    Args:
        content: of the file, of batch size 1.
        inputs: of one window, by name.
        sizes: by which real inputs are divided, by name.
    """

    def __init__(self, content: bytes, inputs: Inputs, sizes: dict[str, Any]):
        from ai_edge_litert.interpreter import Interpreter

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is meant for debugging, which this is
            self.interpreter = Interpreter(
                model_content=content, experimental_preserve_all_tensors=True
            )
        run = self.interpreter.get_signature_runner()
        details = run.get_input_details()
        run(**{name: quantize(a, details[name], sizes.get(name)) for name, a in inputs.items()})
        self._values: dict[int, np.ndarray] = {}

    def value(self, tensor: Tensor) -> np.ndarray:
        """Returns a tensor as it is stored."""
        if tensor.place not in self._values:
            self._values[tensor.place] = self.interpreter.get_tensor(tensor.place)
        return self._values[tensor.place]

    def real(self, tensor: Tensor) -> np.ndarray:
        """Returns what a tensor stands for, float64."""
        value = self.value(tensor).astype(np.float64)
        return (value - tensor.zero_points[0]) * tensor.scales[0] if tensor.scales else value


def compare_tensors(
    model: TemporalFusionTransformer, content: bytes, windows: list[Inputs], sizes: dict[str, Any]
) -> list[dict[str, Any]]:
    """Compares every observed tensor with its int8 counterpart.

    A tensor is known by its scale and zero point. Where several have the same ones (the mathematics
    gives them, or a tensor is there at every step of the LSTM), the most alike are counterparts.

    Args:
        model: the trained, quantized one.
        content: of its int8 file, of batch size 1.
        windows: inputs of one window each.
        sizes: by which real inputs are divided.

    Returns:
        For each tensor in the order of computing: name, values, different (share), largest (steps).
        What the converter has computed once and for all has no counterpart, and so no values.
    """
    device, census = device_model(model, rounds_sums=True), take_census(content)
    grids = {row["name"]: (row["scale"], row["zero_point"]) for row in model.observer_report()}
    outputs = [t for op in census.operators if op.kind not in _MOVING for t in op.outputs]
    stored = [tensor for tensor in outputs if tensor.type == "int8"]
    rows: dict[str, dict[str, Any]] = {}
    for inputs in windows:
        execution, seen = Execution(content, inputs, sizes), []
        quotients = {n: np.float32(a / sizes[n]) if n in sizes else a for n, a in inputs.items()}
        with listening(device, lambda name, tensor, seen=seen: seen.append((name, tensor))):
            device(quotients)
        groups: dict[tuple[float, int, int], list[tuple[str, np.ndarray]]] = {}
        for name, tensor in seen:
            scale, zero_point = grids[name]
            codes = np.round(np.ravel(tensor) / scale) + zero_point
            groups.setdefault((scale, zero_point, codes.size), []).append((name, codes))
            rows.setdefault(name, {"name": name, "values": 0, "different": 0, "largest": 0.0})
        for (scale, zero_point, size), observed in groups.items():
            others = [
                execution.value(tensor).ravel()
                for tensor in stored
                if abs(tensor.scales[0] / scale - 1) < _SAME_SCALE
                and tensor.zero_points[0] == zero_point
                and tensor.elements == size
            ]
            for place, steps in _pairs([codes for _, codes in observed], others):
                row = rows[observed[place][0]]
                row["values"] += steps.size
                row["different"] += int((steps > 0).sum())
                row["largest"] = max(row["largest"], float(steps.max()))
    for row in rows.values():
        row["different"] /= max(row["values"], 1)
    return list(rows.values())


def _pairs(
    observed: list[np.ndarray], stored: list[np.ndarray]
) -> Iterator[tuple[int, np.ndarray]]:
    """Pairs tensors, the most alike first.

    Yields:
        The place of an observed tensor, and the steps between it and its counterpart.
    """
    if not stored:
        return
    others = np.stack(stored).astype(np.int16)
    distances = np.stack([np.abs(others - codes).sum(axis=1) for codes in observed])
    for _ in range(min(distances.shape)):
        place, other = np.unravel_index(np.argmin(distances), distances.shape)
        yield int(place), np.abs(others[other] - observed[place])
        distances[place] = distances[:, other] = np.inf


def tensor_table(rows: list[dict[str, Any]], most: int = 20) -> str:
    """Returns where model and file first part and where the difference grows, as text."""
    parted = [row for row in rows if row["different"]]
    if not parted:
        return f"all {len(rows)} observed tensors are equal"
    lines = [f"{len(rows) - len(parted)} of {len(rows)} observed tensors are equal"]
    lines.append(f"they first part at {parted[0]['name']}")
    lines.append(f"{'':<48}{'different':>11}{'largest':>9}")
    before = 0.0
    for row in parted[:most]:
        grows = " grows" if row["different"] > 2 * before and before else ""
        lines.append(f"{row['name']:<48}{row['different']:>11.3%}{row['largest']:>9.0f}{grows}")
        before = row["different"]
    if len(parted) > most:
        lines.append(f"and {len(parted) - most} more")
    return "\n".join(lines)


def compare_operators(
    content: bytes, windows: list[Inputs], sizes: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """Compares every int8 operator, given the very inputs that it had, with exact arithmetic.

    Returns:
        By kind of operator: values, different (share), largest (steps).
    """
    census = take_census(content)
    rows: dict[str, dict[str, float]] = collections.defaultdict(
        lambda: {"values": 0, "different": 0, "largest": 0.0}
    )
    for inputs in windows:
        execution = Execution(content, inputs, sizes)
        for operator in census.operators:
            output = operator.outputs[0]
            exact = _exact(operator, execution) if output.type == "int8" else None
            if exact is None:
                continue
            codes = np.floor(exact / output.scales[0] + 0.5) + output.zero_points[0]
            codes = np.clip(codes, -128, 127).reshape(output.shape)
            steps = np.abs(codes - execution.value(output))
            row = rows[operator.kind]
            row["values"] += steps.size
            row["different"] += int((steps > 0).sum())
            row["largest"] = max(row["largest"], float(steps.max()))
    for row in rows.values():
        row["different"] /= row["values"]
    return dict(rows)


def operator_table(rows: dict[str, dict[str, float]]) -> str:
    """Returns how far operators are from exact arithmetic, as text."""
    lines = ["each operator given the same int8 inputs as exact arithmetic"]
    for kind, row in sorted(rows.items()):
        lines.append(
            f"{kind:<24}{row['values']:>10,} values {row['different']:>9.4%} differ, "
            f"largest {row['largest']:.0f} steps"
        )
    return "\n".join(lines)


def _exact(operator: Operator, execution: Execution) -> np.ndarray | None:
    """Returns an operator's result in float64, or `None` if it only moves values."""
    values = [execution.real(tensor) for tensor in operator.inputs]
    kind = operator.kind
    if kind == "FULLY_CONNECTED":
        product = values[0].reshape(-1, values[1].shape[1]) @ values[1].T
        return product + values[2] if len(values) > 2 else product
    if kind in ("SUM", "MEAN"):
        reduce = np.sum if kind == "SUM" else np.mean
        return reduce(values[0], axis=tuple(np.atleast_1d(values[1]).astype(int)))
    functions = {
        "ADD": lambda a, b: a + b,
        "SUB": lambda a, b: a - b,
        "MUL": lambda a, b: a * b,
        "BATCH_MATMUL": np.matmul,
        "LOGISTIC": lambda a: 1 / (1 + np.exp(-a)),
        "TANH": np.tanh,
        "ELU": lambda a: np.where(a > 0, a, np.expm1(a)),
        "SOFTMAX": _softmax,
        "RELU_N1_TO_1": lambda a: np.clip(a, -1, 1),
        "QUANTIZE": lambda a: a,
    }
    return functions[kind](*values) if kind in functions else None


def _softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
