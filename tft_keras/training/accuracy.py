"""How well several models forecast the same windows, in the units of training and of the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tft_keras.data import Windows
from tft_keras.data.forecasts import Predict
from tft_keras.metrics import ForecastMetrics, median_place


class WindowAccuracy:
    """Windows that models are compared on.

    Args:
        windows: to forecast.
        positions: which of them; all by default.
        batch_size: windows at once.
    """

    def __init__(
        self, windows: Windows, positions: np.ndarray | None = None, batch_size: int = 256
    ) -> None:
        self.windows, self.batch_size = windows, batch_size
        self.positions = np.arange(len(windows)) if positions is None else positions

    def _batches(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.positions), self.batch_size):
            yield self.positions[start : start + self.batch_size]

    def predict(self, predict: Predict) -> np.ndarray:
        """Returns a model's scaled quantiles, (windows, horizon, quantiles)."""
        return np.concatenate(
            [np.asarray(predict(self.windows.gather(batch)[0])) for batch in self._batches()]
        )

    def errors(self, predicted: np.ndarray, quantiles: Sequence[float]) -> dict[str, float]:
        """Returns the errors of what `predict` returned.

        Returns:
            loss: the one training minimizes: the sum over the quantiles of the mean quantile loss,
                of scaled targets.
            rmse, q_risk: of the median, in the target's own units; see `ForecastMetrics`.
        """
        horizon = self.windows.horizon
        scaled, own = ForecastMetrics(quantiles, horizon), ForecastMetrics(quantiles, horizon)
        parts = np.split(predicted, range(self.batch_size, len(predicted), self.batch_size))
        for batch, part in zip(self._batches(), parts, strict=True):
            scaled.update(self.windows.targets(batch), part)
            own.update(self.windows.actuals(batch), self.windows.unscale(batch, part))
        result = own.result()
        risks = list(result["q_risk"].values())
        return {
            "loss": sum(scaled.result()["quantile_loss"].values()),
            "rmse": result["rmse"],
            "q_risk": risks[median_place(quantiles)],
        }
