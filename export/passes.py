"""Changes to a converted int8 graph, each of which makes it compute what training saw.

The converter leaves some things otherwise than the runtime could have them: see each function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from export.flatbuffer import Graph, Kind, Type


def integer_codes(graph: Graph) -> None:
    """Lets tables be looked up by the codes of int8 tensors as they are.

    The code of a value is the rounded quotient by its step. Where the zero point is 0, the int8
    number is that already: DEQUANTIZE, MUL, ROUND, CAST become one CAST.
    """
    producers = graph.producers()
    for operator in graph.operators:
        if graph.kind(operator) != Kind.CAST:
            continue
        before, reshaped = producers.get(operator.inputs[0]), None
        while before is not None and graph.kind(before) in (Kind.ROUND, Kind.MUL, Kind.RESHAPE):
            reshaped = before if graph.kind(before) == Kind.RESHAPE else reshaped
            before = producers.get(before.inputs[0])
        if before is None or graph.kind(before) != Kind.DEQUANTIZE:
            continue
        place = before.inputs[0]
        if any(graph.tensors[place].quantization.zeroPoint):
            raise ValueError("Codes need a zero point of 0.")
        if reshaped is not None:
            result = graph.tensors[reshaped.outputs[0]]
            result.type, result.quantization = Type.INT8, graph.tensors[place].quantization
            reshaped.inputs[0], place = place, reshaped.outputs[0]
        operator.inputs = [place]
        if operator.builtinOptions is not None:
            operator.builtinOptions.inDataType = Type.INT8


def integer_elu(graph: Graph) -> None:
    """Makes ELU between int8 tensors an int8 operator.

    The converter writes DEQUANTIZE, ELU in float, QUANTIZE, perhaps with a RESHAPE among them. The
    runtime has ELU in int8, as a table of all 256 results, which are those of these three steps.
    """
    producers, consumers = graph.producers(), graph.consumers()
    for operator in list(graph.operators):
        if graph.kind(operator) != Kind.ELU or graph.tensors[operator.inputs[0]].type == Type.INT8:
            continue
        before, after = [operator], [operator]
        while graph.kind(before[0]) in (Kind.ELU, Kind.RESHAPE):
            before.insert(0, producers[before[0].inputs[0]])
        while graph.kind(after[-1]) in (Kind.ELU, Kind.RESHAPE):
            (following,) = consumers[after[-1].outputs[0]]
            after.append(following)
        _in_int8(graph, [*before[1:], *after[1:-1]], before[0], after[-1], operator)


def _in_int8(graph: Graph, chain: list[Any], dequantize: Any, quantize: Any, elu: Any) -> None:
    """Lets a chain of operators go from DEQUANTIZE's int8 input to QUANTIZE's int8 output."""
    scales = graph.tensors[dequantize.inputs[0]].quantization
    chain[0].inputs[0] = dequantize.inputs[0]
    for operator in chain:
        if operator is elu:
            scales = graph.tensors[quantize.outputs[0]].quantization
        if operator is chain[-1]:
            operator.outputs = list(quantize.outputs)
        else:
            tensor = graph.tensors[operator.outputs[0]]
            tensor.type, tensor.quantization = Type.INT8, scales
    graph.operators.remove(quantize)


def float_means(graph: Graph) -> None:
    """Makes the means of normalizations float ones.

    The converter takes the mean in int8, rounded to its input's steps, before it widens it;
    training took it in float.
    """
    consumers, renamed = graph.consumers(), {}
    widened: dict[int, int] = {}
    for operator in graph.operators:
        if graph.kind(operator) == Kind.DEQUANTIZE:
            widened.setdefault(operator.inputs[0], operator.outputs[0])
    for operator in list(graph.operators):
        after = consumers[operator.outputs[0]]
        if (
            graph.kind(operator) == Kind.MEAN
            and graph.tensors[operator.inputs[0]].type == Type.INT8
            and after
            and all(graph.kind(following) == Kind.DEQUANTIZE for following in after)
        ):
            operator.inputs[0] = widened[operator.inputs[0]]
            mean, *others = (following.outputs[0] for following in after)
            operator.outputs = [mean]
            for following in after:
                graph.operators.remove(following)
            renamed |= dict.fromkeys(others, mean)
    _rename(graph, renamed)
    # What widens a mean's input may have stood behind it.
    _sort(graph)


def drop_copies(graph: Graph) -> None:
    """Removes slices that take the whole of their input."""
    renamed = {}
    for operator in list(graph.operators):
        if graph.kind(operator) != Kind.STRIDED_SLICE:
            continue
        given, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
        same = given.shape is not None and list(given.shape) == list(result.shape)
        plain = all(graph.data(place) is not None for place in operator.inputs[1:])
        if same and plain and (graph.value(operator.inputs[3]) == 1).all():
            renamed[operator.outputs[0]] = operator.inputs[0]
            graph.operators.remove(operator)
    _rename(graph, renamed)


def fold_constants(graph: Graph) -> None:
    """Computes once what only moves the values of constants."""
    for operator in list(graph.operators):
        if any(graph.data(place) is None for place in operator.inputs):
            continue
        value = _moved(graph, operator)
        if value is None:
            continue
        graph.set_value(operator.outputs[0], value)
        graph.operators.remove(operator)


def _moved(graph: Graph, operator: Any) -> np.ndarray | None:
    """Returns the result of an operator that only moves values; `None` for others."""
    kind = graph.kind(operator)
    if kind not in (Kind.RESHAPE, Kind.TRANSPOSE, Kind.STRIDED_SLICE):
        return None
    value = graph.value(operator.inputs[0])
    shape = tuple(graph.tensors[operator.outputs[0]].shape)
    if kind == Kind.RESHAPE:
        return value.reshape(shape)
    if kind == Kind.TRANSPOSE:
        return value.transpose(graph.value(operator.inputs[1]))
    begin, _, strides = (graph.value(place) for place in operator.inputs[1:])
    options = operator.builtinOptions
    masks = (options.ellipsisMask, options.newAxisMask, options.shrinkAxisMask)
    if any(masks) or (strides != 1).any():
        return None
    first = [
        0 if options.beginMask >> axis & 1 else int(start) % max(size, 1)
        for axis, (start, size) in enumerate(zip(begin, value.shape, strict=True))
    ]
    return value[tuple(slice(f, f + s) for f, s in zip(first, shape, strict=True))]


def per_tensor_weights(graph: Graph) -> None:
    """Gives every weight the one scale that training gave it.

    A kernel with several uses, such as the LSTM's in each of its steps, is quantized once more by
    the converter, by output channel. The largest of these scales is that of the tensor, no other is
    finer than half of the error made, so rounding brings back the integers of training.
    """
    for place, tensor in enumerate(graph.tensors):
        quantization = tensor.quantization
        scales = None if quantization is None else quantization.scale
        if scales is None or len(scales) < 2 or graph.data(place) is None:
            continue
        if tensor.type != Type.INT8:
            raise ValueError(f"Only kernels are quantized by channel. Received: {tensor.name!r}.")
        axes = [1] * len(tensor.shape)
        axes[quantization.quantizedDimension] = len(scales)
        scale = float(max(scales))
        value = graph.value(place) * (np.reshape(scales, axes).astype(np.float64) / scale)
        graph.set_value(place, np.round(value).astype(np.int8))
        quantization.scale = np.asarray([scale], np.float32)
        quantization.zeroPoint = np.zeros(1, np.int64)
        quantization.quantizedDimension = 0


def integer_weights(graph: Graph) -> None:
    """Stores the float constants of normalizations in 8 bits, as training saw them.

    Symmetric with the largest value at 127, which is the grid that they are on; a DEQUANTIZE widens
    them again.
    """
    widened: dict[int, int] = {}
    for operator in list(graph.operators):
        for position, place in enumerate(operator.inputs):
            if place < 0 or graph.data(place) is None:
                continue
            tensor = graph.tensors[place]
            size = 1 if tensor.shape is None else int(np.prod(tensor.shape))
            if tensor.type != Type.FLOAT32 or size == 1:
                continue
            if place not in widened:
                widened[place] = _widened(graph, place)
            operator.inputs[position] = widened[place]


def float_edges(graph: Graph, sizes: dict[str, list[float]]) -> None:
    """Lets the real inputs and the outputs be float32: divided and quantized within the graph.

    Args:
        sizes: by which the variables of real inputs are divided, by the inputs' names.
    """
    inputs = list(graph.subgraph.inputs)
    (signature,) = graph.model.signatureDefs
    named = {tensor.name.decode(): tensor for tensor in (*signature.inputs, *signature.outputs)}
    for position, name in enumerate(graph.input_names()):
        if name not in sizes:
            continue
        stored = inputs[position]
        shape = graph.tensors[stored].shape
        given = graph.add_tensor(name, Type.FLOAT32, shape)
        graph.tensors[given].shapeSignature = graph.tensors[stored].shapeSignature
        divisors = graph.add_tensor(f"{name}_sizes", Type.FLOAT32, [len(sizes[name])])
        graph.set_value(divisors, np.asarray(sizes[name], np.float32))
        quotients = graph.add_tensor(f"{name}_quotients", Type.FLOAT32, shape)
        graph.tensors[quotients].shapeSignature = graph.tensors[stored].shapeSignature
        graph.operators[:0] = [
            graph.new_operator(Kind.DIV, [given, divisors], [quotients]),
            graph.new_operator(Kind.QUANTIZE, [quotients], [stored]),
        ]
        inputs[position] = named[name].tensorIndex = given
    graph.subgraph.inputs = inputs
    outputs = []
    for place in graph.subgraph.outputs:
        result = graph.add_tensor("quantiles", Type.FLOAT32, graph.tensors[place].shape)
        graph.tensors[result].shapeSignature = graph.tensors[place].shapeSignature
        graph.operators.append(graph.new_operator(Kind.DEQUANTIZE, [place], [result], version=2))
        outputs.append(result)
        signature.outputs[0].tensorIndex = result
    graph.subgraph.outputs = outputs


def _widened(graph: Graph, place: int) -> int:
    value = graph.value(place)
    scale = max(float(np.abs(value).max()), np.finfo(np.float32).tiny) / 127
    name, shape = graph.tensors[place].name.decode(), graph.tensors[place].shape
    stored = graph.add_tensor(f"{name}_int8", Type.INT8, shape, scale)
    graph.set_value(stored, np.round(value / scale).astype(np.int8))
    result = graph.add_tensor(f"{name}_widened", Type.FLOAT32, shape)
    graph.operators.insert(0, graph.new_operator(Kind.DEQUANTIZE, [stored], [result], version=2))
    return result


def _rename(graph: Graph, renamed: dict[int, int]) -> None:
    """Lets every operator read other tensors in place of some."""

    def final(place: int) -> int:
        while place in renamed:
            place = renamed[place]
        return place

    for operator in graph.operators:
        operator.inputs = [final(place) for place in operator.inputs]
    graph.subgraph.outputs = [final(place) for place in graph.subgraph.outputs]


def _sort(graph: Graph) -> None:
    """Puts every operator after those whose results it reads."""
    producers, done, ordered = graph.producers(), set(), []

    def visit(operator: Any) -> None:
        stack = [operator]
        while stack:
            current = stack[-1]
            if id(current) in done:
                stack.pop()
                continue
            waiting = [producers[p] for p in current.inputs if p in producers]
            waiting = [other for other in waiting if id(other) not in done]
            if waiting:
                stack.extend(waiting)
            else:
                stack.pop()
                done.add(id(current))
                ordered.append(current)

    for operator in graph.operators:
        visit(operator)
    graph.operators = ordered
