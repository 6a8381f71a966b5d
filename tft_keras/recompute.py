"""Gradient checkpointing that is exact: the only caller of `tf.recompute_grad`.

`tf.recompute_grad` runs a function once for its result and once more, in the backward pass, for its
gradient. Whatever the function *does* besides computing (drawing a random seed, moving an observer)
would happen twice, and the gradient would belong to another draw. Here such effects go through
`once`: the first run performs them and remembers the tensors they returned, the replay gets these.

    def body(x):
        seed = once(generator.draw)
        return dropout(tf.matmul(x, kernel), rate, seed)

    y = recompute(body, x)
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf


@dataclasses.dataclass
class _Run:
    """One run of a recomputed body: the first one records, every later one replays."""

    replay: bool
    memory: list[Any]
    position: int = 0


class _Runs(threading.local):
    """The runs under way, outermost first. Each replica of a strategy has its own thread."""

    def __init__(self) -> None:
        self.stack: list[_Run] = []


_runs = _Runs()


def is_recomputing() -> bool:
    """Returns whether the calling code runs a second time, for its gradient."""
    return any(run.replay for run in _runs.stack)


def once(effect: Callable[[], Any]) -> Any:
    """Performs `effect` in the first run of the surrounding recomputed body and not in its replay.

    Args:
        effect: takes nothing, returns a tensor or a structure of tensors. Return values that were
            *read* (`variable.read_value()` after the assignment), not variables: a variable would
            have moved on by the time of the replay.

    Returns:
        What `effect` returned in the first run, as constants: no gradient flows through them.
        Outside of recomputed bodies it is simply called.
    """
    return tf.nest.map_structure(tf.stop_gradient, _once_at(len(_runs.stack) - 1, effect))


def _once_at(depth: int, effect: Callable[[], Any]) -> Any:
    if depth < 0:
        return effect()
    run = _runs.stack[depth]
    if run.replay:
        value = run.memory[run.position]
        run.position += 1
        return value
    # A nested body's first run may lie within an outer body's replay: the outermost one knows.
    value = _once_at(depth - 1, effect)
    run.memory.append(value)
    return value


def recompute(body: Callable[..., Any], *arguments: Any, when: bool = True) -> Any:
    """Calls `body(*arguments)`, keeping for the backward pass only the arguments.

    Values and gradients are those of the plain call, in eager mode, in `tf.function`, within
    `tf.while_loop`, under a distribution strategy and with nested bodies.

    Args:
        body: computes with tensors. Every tensor it needs a gradient for must come in through
            `arguments` (a tensor from outside gets none), every tensor needed later must be
            returned. It may use variables from outside, except within a loop: there the variables'
            values are arguments too. Side effects go through `once`.
        *arguments: tensors of any type, or structures holding tensors, `None` and Python values.
        when: `False` for the plain call, whose gradients are summed in the same order.

    Returns:
        What `body` returns: a tensor or a structure of tensors; `None` may be among them.
    """
    leaves = tf.nest.flatten(arguments)
    # The others have no gradient: they are closed over, as `tf.recompute_grad` takes none of them.
    places = [p for p, leaf in enumerate(leaves) if tf.is_tensor(leaf) and leaf.dtype.is_floating]
    if not when:
        # An argument's gradients are summed within the body first, as in a recomputed one.
        for place in places:
            leaves[place] = tf.identity(leaves[place])
        return body(*tf.nest.pack_sequence_as(arguments, leaves))
    memory: list[Any] = []
    layout: dict[str, Any] = {}

    def run(*values: tf.Tensor) -> list[tf.Tensor]:
        filled = list(leaves)
        for place, value in zip(places, values, strict=True):
            filled[place] = value
        _runs.stack.append(_Run(replay="outputs" in layout, memory=memory))
        try:
            outputs = body(*tf.nest.pack_sequence_as(arguments, filled))
        finally:
            _runs.stack.pop()
        layout["outputs"] = outputs = tf.nest.map_structure(_as_tensor, outputs)
        return [output for output in tf.nest.flatten(outputs) if output is not None]

    results = iter(tf.recompute_grad(run)(*[leaves[place] for place in places]))
    template = layout.pop("outputs")
    layout["outputs"] = True  # only that the first run is over: no tensor is kept alive
    return tf.nest.map_structure(lambda leaf: None if leaf is None else next(results), template)


def _as_tensor(value: Any) -> tf.Tensor | None:
    return None if value is None else tf.convert_to_tensor(value)
