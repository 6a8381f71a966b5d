"""A .tflite file as lists of operators and tensors that can be changed."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

Kind = schema.BuiltinOperator
Type = schema.TensorType
NUMPY_TYPES = {Type.FLOAT32: np.float32, Type.INT8: np.int8, Type.INT32: np.int32}


class Graph:
    """The first subgraph of a .tflite file, the only one where there is no control flow.

    Tensors are known by their places.

    Args:
        content: of the file.

    Attributes:
        operators, tensors: as the schema has them.
    """

    def __init__(self, content: bytes):
        self.model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
        self.subgraph = self.model.subgraphs[0]
        for operator in self.subgraph.operators:
            operator.inputs, operator.outputs = list(operator.inputs), list(operator.outputs)

    @property
    def operators(self) -> list[Any]:
        return self.subgraph.operators

    @operators.setter
    def operators(self, operators: list[Any]) -> None:
        self.subgraph.operators = operators

    @property
    def tensors(self) -> list[Any]:
        return self.subgraph.tensors

    def kind(self, operator: Any) -> int:
        """Returns which builtin operator it is."""
        return self._builtin(self.model.operatorCodes[operator.opcodeIndex])

    @staticmethod
    def _builtin(code: Any) -> int:
        # Numbers above 127 are in one field, those below in the other one, or in both.
        return max(code.builtinCode, code.deprecatedBuiltinCode)

    def producers(self) -> dict[int, Any]:
        """Returns the operator that computes each tensor."""
        return {place: operator for operator in self.operators for place in operator.outputs}

    def consumers(self) -> dict[int, list[Any]]:
        """Returns the operators that read each tensor."""
        found = collections.defaultdict(list)
        for operator in self.operators:
            for place in operator.inputs:
                found[place].append(operator)
        return found

    def data(self, place: int) -> Any | None:
        """Returns the bytes of a constant tensor, or `None` for another one."""
        data = self.model.buffers[self.tensors[place].buffer].data
        return None if data is None or not len(data) else data

    def value(self, place: int) -> np.ndarray:
        """Returns a constant tensor's value."""
        tensor = self.tensors[place]
        flat = np.frombuffer(bytes(bytearray(self.data(place))), NUMPY_TYPES[tensor.type])
        return flat.reshape(() if tensor.shape is None else tensor.shape)

    def set_value(self, place: int, value: np.ndarray) -> None:
        """Makes a tensor a constant."""
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        self.tensors[place].buffer = len(self.model.buffers) - 1

    def add_tensor(
        self,
        name: str,
        type_: int,
        shape: Any,
        scale: float | None = None,
        zero_point: int = 0,
    ) -> int:
        """Adds a tensor and returns its place."""
        tensor = schema.TensorT()
        tensor.name, tensor.type, tensor.buffer = name.encode(), type_, 0
        tensor.shape = np.asarray(shape, np.int32)
        tensor.hasRank = True
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.asarray([scale], np.float32)
            tensor.quantization.zeroPoint = np.asarray([zero_point], np.int64)
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def new_operator(self, kind: int, inputs: list[int], outputs: list[int], version: int = 1):
        """Returns an operator without options."""
        codes = self.model.operatorCodes
        there = [self._builtin(code) == kind and code.version >= version for code in codes]
        if not any(there):
            code = schema.OperatorCodeT()
            code.builtinCode, code.version = kind, version
            code.deprecatedBuiltinCode = min(kind, 127)
            codes.append(code)
            there.append(True)
        operator = schema.OperatorT()
        operator.opcodeIndex = there.index(True)
        operator.inputs, operator.outputs = inputs, outputs
        return operator

    def input_names(self) -> list[str]:
        """Returns the names of the inputs, in their order, that the signature gives them."""
        (signature,) = self.model.signatureDefs
        names = {tensor.tensorIndex: tensor.name.decode() for tensor in signature.inputs}
        return [names[place] for place in self.subgraph.inputs]

    def drop_names(self) -> None:
        """Removes the names of tensors, which make up a good part of a small file."""
        for tensor in self.tensors:
            tensor.name = b""

    def name_signature(self, inputs: list[str], outputs: list[str], key: str) -> None:
        """Names the inputs and outputs, in their order, as a signature."""
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = key.encode(), 0
        for attribute, names, places in (
            ("inputs", inputs, self.subgraph.inputs),
            ("outputs", outputs, self.subgraph.outputs),
        ):
            maps = []
            for name, place in zip(names, places, strict=True):
                tensor_map = schema.TensorMapT()
                tensor_map.name, tensor_map.tensorIndex = name.encode(), int(place)
                maps.append(tensor_map)
                self.tensors[place].name = name.encode()
            setattr(signature, attribute, maps)
        self.model.signatureDefs = [signature]

    def drop_unused(self) -> None:
        """Removes operators without effect, tensors and buffers that nothing uses."""
        while True:
            needed = set(self.subgraph.outputs)
            for operator in self.operators:
                needed.update(operator.inputs)
            kept = [op for op in self.operators if needed.intersection(op.outputs)]
            if len(kept) == len(self.operators):
                break
            self.operators = kept
        used = {*self.subgraph.inputs, *self.subgraph.outputs}
        for operator in self.operators:
            used.update(operator.inputs, operator.outputs)
        kept = [place for place in range(len(self.tensors)) if place in used]
        places = {old: new for new, old in enumerate(kept)} | {-1: -1}
        self.subgraph.tensors = [self.tensors[place] for place in kept]
        self.subgraph.inputs = [places[place] for place in self.subgraph.inputs]
        self.subgraph.outputs = [places[place] for place in self.subgraph.outputs]
        for operator in self.operators:
            operator.inputs = [places[place] for place in operator.inputs]
            operator.outputs = [places[place] for place in operator.outputs]
        for signature in self.model.signatureDefs or []:
            for tensor_map in (*signature.inputs, *signature.outputs):
                tensor_map.tensorIndex = places[tensor_map.tensorIndex]
        self._drop_buffers()

    def _drop_buffers(self) -> None:
        for tensor in self.tensors:
            data = self.model.buffers[tensor.buffer].data
            if data is None or not len(data):
                tensor.buffer = 0  # the one that is empty by convention
        metadata = [entry.buffer for entry in self.model.metadata or []]
        used = sorted({0, *metadata, *(tensor.buffer for tensor in self.tensors)})
        places = {old: new for new, old in enumerate(used)}
        self.model.buffers = [self.model.buffers[place] for place in used]
        for owner in (*self.tensors, *(self.model.metadata or [])):
            owner.buffer = places[owner.buffer]
        used = sorted({operator.opcodeIndex for operator in self.operators})
        places = {old: new for new, old in enumerate(used)}
        self.model.operatorCodes = [self.model.operatorCodes[place] for place in used]
        for operator in self.operators:
            operator.opcodeIndex = places[operator.opcodeIndex]

    def content(self) -> bytes:
        """Returns the file."""
        return bytes(flatbuffer_utils.convert_object_to_bytearray(self.model))
