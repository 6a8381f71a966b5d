"""The same windows through the trained model and through the exported files, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tft_keras.data import Windows
from tft_keras.data.windows import Inputs
from tft_keras.metrics import ForecastMetrics

Predict = Callable[[Inputs], np.ndarray]


def chosen_positions(windows: Windows, count: int) -> np.ndarray:
    """Returns `count` positions, evenly spaced; all if `count` is 0 or there are no more."""
    if not count or count >= len(windows):
        return np.arange(len(windows))
    return np.linspace(0, len(windows) - 1, count).round().astype(np.int64)


class Comparison:
    """Predictions of several models for the same windows.

    Args:
        windows: to predict.
        positions: which of them.
        batch_size: windows at once.
    """

    def __init__(self, windows: Windows, positions: np.ndarray, batch_size: int = 256):
        self.windows, self.positions, self.batch_size = windows, positions, batch_size

    def _batches(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.positions), self.batch_size):
            yield self.positions[start : start + self.batch_size]

    def predict(self, predict: Predict) -> np.ndarray:
        """Returns a model's scaled quantiles of all windows."""
        return np.concatenate(
            [np.asarray(predict(self.windows.gather(batch)[0])) for batch in self._batches()]
        )

    def accuracy(self, predicted: np.ndarray, quantiles: tuple[float, ...]) -> dict[str, float]:
        """Returns `loss` (of scaled targets, summed over quantiles), `rmse` and `q_risk`."""
        horizon = self.windows.horizon
        scaled, own = ForecastMetrics(quantiles, horizon), ForecastMetrics(quantiles, horizon)
        start = 0
        for batch in self._batches():
            part = predicted[start : start + len(batch)]
            start += len(batch)
            scaled.update(self.windows.gather(batch)[1], part)
            own.update(self.windows.actuals(batch), self.windows.unscale(batch, part))
        result = own.result()
        median = min(result["q_risk"], key=lambda quantile: abs(float(quantile) - 0.5))
        loss = sum(scaled.result()["quantile_loss"].values())
        return {"loss": loss, "rmse": result["rmse"], "q_risk": result["q_risk"][median]}


def in_steps(reference: np.ndarray, predicted: np.ndarray, step: float) -> dict[str, float]:
    """Returns how far int8 outputs are from the model's, in steps of the output's grid.

    Returns:
        largest, mean; equal and within_one: shares of the outputs.
    """
    steps = np.abs(np.asarray(predicted, np.float64) - reference) / step
    return {
        "largest": float(steps.max()),
        "mean": float(steps.mean()),
        "equal": float((steps < 0.5).mean()),
        "within_one": float((steps < 1.5).mean()),
    }


def relative(reference: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Returns the largest difference of float outputs, relative to the largest output."""
    difference = np.abs(np.asarray(predicted, np.float64) - reference).max()
    return {"relative": float(difference / np.abs(reference).max())}


def table(report: dict[str, Any]) -> str:
    """Returns a parity report as text."""
    lines = [f"{report['windows']:,} windows of the {report['split']} split"]
    header = f"{'':<28}{'loss':>10}{'RMSE':>12}{'q-risk':>10}   difference"
    lines.append(header)
    for name, row in report["files"].items():
        accuracy = row["accuracy"]
        lines.append(
            f"{name:<28}{accuracy['loss']:>10.5f}{accuracy['rmse']:>12.5g}"
            f"{accuracy['q_risk']:>10.4f}   {_difference(row)}"
        )
    return "\n".join(lines)


def _difference(row: dict[str, Any]) -> str:
    if "within_one" in row:
        return (
            f"{row['equal']:.2%} equal, {row['within_one']:.2%} within 1 step, "
            f"mean {row['mean']:.4f}, largest {row['largest']:.0f} steps"
        )
    return f"{row['relative']:.1e} relative" if "relative" in row else "the trained model"
