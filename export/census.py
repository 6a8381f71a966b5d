"""What a .tflite file consists of: operators, types, sizes, and what is left in float.

python -m export.census model_int8.tflite
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import pathlib
from typing import Any

from tft_keras.errors import InputError

# A normalization between int8 edges; besides, a constant may be stored in 8 bits and widened.
_STATISTICS = {"DEQUANTIZE", "MEAN", "SUB", "MUL", "SQUARED_DIFFERENCE", "ADD", "RSQRT", "QUANTIZE"}
_NO_WEIGHT = 1  # elements of a float constant that is a number of the arithmetic, not a weight
_SHOWN = 20
_FORBIDDEN = ("WHILE", "CUSTOM", "IF", "CALL_ONCE")


@dataclasses.dataclass(frozen=True)
class Operator:
    """One operator of a .tflite file.

    Attributes:
        kind: the builtin operator's name, or `CUSTOM`.
        inputs, outputs: of the tensors: name, type, shape and whether it is a constant.
    """

    kind: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def is_float(self) -> bool:
        """Whether it computes in floating point."""
        return any(tensor.type.startswith("float") for tensor in self.outputs)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a .tflite file; `scales` are empty if it is not quantized."""

    place: int
    name: str
    type: str
    shape: tuple[int, ...]
    constant_bytes: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]

    @property
    def elements(self) -> int:
        return functools.reduce(lambda product, size: product * size, self.shape, 1)


@dataclasses.dataclass(frozen=True)
class Census:
    """Everything counted in one file.

    Attributes:
        size: of the file in bytes.
        operators: in the order of computation.
        inputs, outputs: of the whole.
        subgraphs: number of them; more than one means control flow.
    """

    size: int
    operators: tuple[Operator, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    subgraphs: int

    def counts(self) -> dict[str, dict[str, int]]:
        """Returns how often each operator computes in each type: `{kind: {type: count}}`."""
        counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        for operator in self.operators:
            counts[operator.kind][operator.outputs[0].type] += 1
        return {kind: dict(counts[kind]) for kind in sorted(counts)}

    def constants(self) -> dict[str, dict[str, int]]:
        """Returns number and bytes of the constants by type."""
        found = {t.place: t for op in self.operators for t in op.inputs if t.constant_bytes}
        totals: dict[str, dict[str, int]] = {}
        for tensor in found.values():
            total = totals.setdefault(tensor.type, {"tensors": 0, "bytes": 0})
            total["tensors"] += 1
            total["bytes"] += tensor.constant_bytes
        return totals

    def float_islands(self) -> list[list[Operator]]:
        """Returns the connected groups of operators that touch a float tensor."""
        operators = [op for op in self.operators if op.is_float or _reads_float(op)]
        group_of: dict[int, list[Operator]] = {}
        groups: list[list[Operator]] = []
        for operator in operators:
            joined = [operator]
            tensors = [t for t in (*operator.inputs, *operator.outputs) if _is_activation(t)]
            for tensor in tensors:
                other = group_of.get(tensor.place)
                if other is not None and other is not joined and other in groups:
                    groups.remove(other)
                    joined[:0] = other
            groups.append(joined)
            for member in joined:
                for tensor in (*member.inputs, *member.outputs):
                    if _is_activation(tensor):
                        group_of[tensor.place] = joined
        return groups

    def violations(self) -> list[str]:
        """Returns what breaks the rules of an int8 file; empty if nothing does.

        Arithmetic is in int8 but for normalization statistics between int8 edges; there is no
        control flow, no custom operator and no float weight.
        """
        found = [f"operator {op.kind}" for op in self.operators if op.kind in _FORBIDDEN]
        found += [f"{self.subgraphs} subgraphs"] if self.subgraphs > 1 else []
        for tensor in (*self.inputs, *self.outputs):
            if tensor.type not in ("int8", "int32"):
                found.append(f"{tensor.type} input or output {tensor.name}")
        for island in self.float_islands():
            kinds = {op.kind for op in island}
            if not kinds <= _STATISTICS or "RSQRT" not in kinds:
                described = _described(island)
                found.append(f"float arithmetic other than normalization statistics: {described}")
        weights = [t for op in self.operators for t in op.inputs if t.constant_bytes]
        return found + [
            f"float weight {tensor.name} {tensor.shape}"
            for tensor in weights
            if tensor.type.startswith("float") and tensor.elements > _NO_WEIGHT
        ]

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts as plain JSON values."""
        islands = collections.Counter(_described(island) for island in self.float_islands())
        return {
            "bytes": self.size,
            "operators": self.counts(),
            "constants": self.constants(),
            "float_islands": dict(islands),
            "violations": self.violations(),
        }

    def text(self) -> str:
        """Returns the census as a table."""
        lines = [f"{self.size:,} bytes, {len(self.operators)} operators", "", "operators by type"]
        for kind, types in self.counts().items():
            cells = ", ".join(f"{count} {type_}" for type_, count in sorted(types.items()))
            lines.append(f"  {kind:<24}{cells}")
        lines += ["", "constants by type"]
        for type_, total in sorted(self.constants().items()):
            lines.append(f"  {type_:<24}{total['tensors']} tensors, {total['bytes']:,} bytes")
        if self.float_islands():
            lines += ["", "left in float, each between other tensors"]
        for kinds, count in self.to_dict()["float_islands"].items():
            lines.append(f"  {count} times {kinds}")
        violations = self.violations()
        lines += ["", "not int8" if violations else "all arithmetic is int8 but for the above"]
        shown = [f"  {violation}" for violation in violations[:_SHOWN]]
        if len(violations) > _SHOWN:
            shown.append(f"  and {len(violations) - _SHOWN} more")
        return "\n".join([*lines, *shown])


def _described(operators: list[Operator]) -> str:
    counts = collections.Counter(operator.kind for operator in operators)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _is_activation(tensor: Tensor) -> bool:
    return tensor.type.startswith("float") and not tensor.constant_bytes


def _reads_float(operator: Operator) -> bool:
    return any(tensor.type.startswith("float") for tensor in operator.inputs)


def take_census(content: bytes) -> Census:
    """Reads the content of a .tflite file."""
    from tensorflow.lite.python import schema_py_generated as schema
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    kinds = {value: name for name, value in vars(schema.BuiltinOperator).items() if name.isupper()}
    types = {v: n.lower() for n, v in vars(schema.TensorType).items() if n.isupper()}
    subgraph = model.subgraphs[0]

    def tensor(place: int) -> Tensor:
        given = subgraph.tensors[place]
        quantization, data = given.quantization, model.buffers[given.buffer].data
        scales = () if quantization is None or quantization.scale is None else quantization.scale
        zeros = () if not len(scales) else quantization.zeroPoint
        return Tensor(
            place,
            given.name.decode(),
            types[given.type],
            tuple(int(size) for size in (() if given.shape is None else given.shape)),
            0 if data is None else len(data),
            tuple(float(scale) for scale in scales),
            tuple(int(zero) for zero in zeros),
        )

    def operator(given: Any) -> Operator:
        code = model.operatorCodes[given.opcodeIndex]
        kind = kinds[max(code.builtinCode, code.deprecatedBuiltinCode)]
        inputs = tuple(tensor(place) for place in given.inputs if place >= 0)
        return Operator(kind, inputs, tuple(tensor(place) for place in given.outputs))

    return Census(
        len(content),
        tuple(operator(given) for given in subgraph.operators),
        tuple(tensor(place) for place in subgraph.inputs),
        tuple(tensor(place) for place in subgraph.outputs),
        len(model.subgraphs),
    )


def read_census(path: str) -> Census:
    """Reads a .tflite file.

    Raises:
        InputError: it is not there, or is no .tflite file.
    """
    try:
        content = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"A census needs a .tflite file. Received: {path!r} ({error.strerror})."
        ) from None
    if content[4:8] != b"TFL3":
        raise InputError(f"A census needs a .tflite file. Received: {path!r}, which is none.")
    return take_census(content)


if __name__ == "__main__":
    import sys

    from tools.command import Flags, Values, import_tensorflow, status

    def main(flags: Values) -> None:
        """Prints the census of a file."""
        import_tensorflow()
        census = read_census(flags.file)
        print(json.dumps(census.to_dict(), indent=1) if flags.json else census.text())

    FLAGS = Flags(__doc__)
    FLAGS.string("file", None, "The .tflite file; may also be given without the flag.")
    FLAGS.boolean("json", False, "Print as JSON.")
    arguments = sys.argv[1:]
    if arguments and not arguments[0].startswith("-"):
        arguments[0] = f"--file={arguments[0]}"
    sys.exit(status(main, FLAGS, arguments))
