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
        """Returns the groups of operators that are connected by float tensors."""
        islands: list[tuple[set[int], list[Operator]]] = []
        for operator in self.operators:
            tensors = (*operator.inputs, *operator.outputs)
            places = {tensor.place for tensor in tensors if _is_activation(tensor)}
            if not places:
                continue
            joined = [island for island in islands if island[0] & places]
            islands = [island for island in islands if not island[0] & places]
            members = [member for _, others in joined for member in others]
            islands.append((places.union(*(p for p, _ in joined)), [*members, operator]))
        return [operators for _, operators in islands]

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
        content = self.to_dict()
        lines = [f"{self.size:,} bytes, {len(self.operators)} operators", "", "operators by type"]
        for kind, types in content["operators"].items():
            cells = ", ".join(f"{count} {type_}" for type_, count in sorted(types.items()))
            lines.append(f"  {kind:<24}{cells}")
        lines += ["", "constants by type"]
        for type_, total in sorted(content["constants"].items()):
            lines.append(f"  {type_:<24}{total['tensors']} tensors, {total['bytes']:,} bytes")
        if content["float_islands"]:
            lines += ["", "left in float, each between other tensors"]
        for kinds, count in content["float_islands"].items():
            lines.append(f"  {count} times {kinds}")
        violations = content["violations"]
        lines += ["", "not int8" if violations else "all arithmetic is int8 but for the above"]
        lines += [f"  {violation}" for violation in violations[:_SHOWN]]
        if len(violations) > _SHOWN:
            lines.append(f"  and {len(violations) - _SHOWN} more")
        return "\n".join(lines)


def _described(operators: list[Operator]) -> str:
    counts = collections.Counter(operator.kind for operator in operators)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _is_activation(tensor: Tensor) -> bool:
    return tensor.type.startswith("float") and not tensor.constant_bytes


def take_census(content: bytes) -> Census:
    """Reads the content of a .tflite file."""
    from export.flatbuffer import Graph, Kind, Type

    graph = Graph(content)
    kinds = {value: name for name, value in vars(Kind).items() if name.isupper()}
    types = {value: name.lower() for name, value in vars(Type).items() if name.isupper()}

    def tensor(place: int) -> Tensor:
        given, data = graph.tensors[place], graph.data(place)
        quantization = given.quantization
        scales = () if quantization is None or quantization.scale is None else quantization.scale
        zeros = () if not len(scales) else quantization.zeroPoint
        return Tensor(
            int(place),
            given.name.decode(),
            types[given.type],
            tuple(int(size) for size in (() if given.shape is None else given.shape)),
            0 if data is None else len(data),
            tuple(float(scale) for scale in scales),
            tuple(int(zero) for zero in zeros),
        )

    def operator(given: Any) -> Operator:
        inputs = tuple(tensor(place) for place in given.inputs if place >= 0)
        outputs = tuple(tensor(place) for place in given.outputs)
        return Operator(kinds[graph.kind(given)], inputs, outputs)

    return Census(
        len(content),
        tuple(operator(given) for given in graph.operators),
        tuple(tensor(place) for place in graph.subgraph.inputs),
        tuple(tensor(place) for place in graph.subgraph.outputs),
        len(graph.model.subgraphs),
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

    from tft_keras.commands.command import Flags, Values, import_tensorflow, status

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
