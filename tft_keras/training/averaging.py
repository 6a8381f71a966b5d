"""The weights that forecast: a moving average of those that are trained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tf_keras as keras


@contextlib.contextmanager
def averaged(model: keras.Model) -> Iterator[None]:
    """Gives a compiled model its averaged weights inside the `with`.

    Checkpoints are written and read inside: what they hold as the weights is what forecasts, and
    the weights that training goes on with are among the optimizer's variables.
    """
    model.optimizer.swap_averages()
    try:
        yield
    finally:
        model.optimizer.swap_averages()


class AveragedWeights(keras.callbacks.Callback):
    """Validates with the averaged weights."""

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        self.model.optimizer.swap_averages()

    def on_test_end(self, logs: dict[str, float] | None = None) -> None:
        self.model.optimizer.swap_averages()
