"""Puts operators that the converter leaves in float, although the runtime has them in int8, right.

The converter knows no int8 ELU: it writes DEQUANTIZE, ELU in float32, QUANTIZE. The runtime has the
operator in int8, as a table of 256 results, which equals these three steps.
"""

from __future__ import annotations

import collections
from typing import Any

from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

_TABLES = {schema.BuiltinOperator.ELU}


def to_integer(content: bytes) -> bytes:
    """Returns a .tflite file whose activations between int8 tensors are int8 operators.

    Args:
        content: of a .tflite file.
    """
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    for subgraph in model.subgraphs:
        _rewrite(model, subgraph)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _rewrite(model: Any, subgraph: Any) -> None:
    def kind(operator: Any) -> int:
        code = model.operatorCodes[operator.opcodeIndex]
        return max(code.builtinCode, code.deprecatedBuiltinCode)

    producers = {tensor: op for op in subgraph.operators for tensor in op.outputs}
    consumers = collections.defaultdict(list)
    for operator in subgraph.operators:
        for tensor in operator.inputs:
            consumers[tensor].append(operator)
    replaced = set()
    for operator in subgraph.operators:
        before = producers.get(operator.inputs[0])
        after = consumers[operator.outputs[0]]
        if (
            kind(operator) in _TABLES
            and before is not None
            and kind(before) == schema.BuiltinOperator.DEQUANTIZE
            and len(after) == 1
            and kind(after[0]) == schema.BuiltinOperator.QUANTIZE
        ):
            consumers[operator.inputs[0]].remove(operator)
            operator.inputs, operator.outputs = before.inputs, after[0].outputs
            replaced.add(id(after[0]))
            if not consumers[before.outputs[0]]:
                replaced.add(id(before))
    subgraph.operators = [op for op in subgraph.operators if id(op) not in replaced]
    _drop_unused(model, subgraph)


def _drop_unused(model: Any, subgraph: Any) -> None:
    """Removes the tensors that no operator touches any more, and renumbers the others."""
    used = {*subgraph.inputs, *subgraph.outputs}
    for operator in subgraph.operators:
        used.update(operator.inputs, operator.outputs)
    kept = [place for place in range(len(subgraph.tensors)) if place in used]
    places = {old: new for new, old in enumerate(kept)} | {-1: -1}
    subgraph.tensors = [subgraph.tensors[place] for place in kept]
    subgraph.inputs = [places[tensor] for tensor in subgraph.inputs]
    subgraph.outputs = [places[tensor] for tensor in subgraph.outputs]
    for operator in subgraph.operators:
        operator.inputs = [places[tensor] for tensor in operator.inputs]
        operator.outputs = [places[tensor] for tensor in operator.outputs]
    for signature in model.signatureDefs or []:
        for tensor_map in (*signature.inputs, *signature.outputs):
            tensor_map.tensorIndex = places[tensor_map.tensorIndex]
