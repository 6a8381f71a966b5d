"""Forecasts that need no network: zero, last value, rolling mean and HAR, and their measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from tft_keras.data.windows import Windows
from tft_keras.errors import InputError

_BATCH = 4096
Forecast = Callable[[Windows, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Har:
    """Heterogeneous autoregression: the mean target of a short, a medium and a long past.

    For each step of the horizon, a least squares fit of the target on a constant and the three
    means, all steps forecast directly (Corsi, 2009, "A Simple Approximate Long-Memory Model of
    Realized Volatility", with lags in bars).

    Args:
        lags: rows of the three means.
        weights: (1 + lags, horizon), the constant first.
    """

    lags: tuple[int, ...]
    weights: np.ndarray

    @classmethod
    def fit(cls, windows: Windows, lags: tuple[int, ...] | None = None) -> Har:
        """Fits the weights.

        Args:
            windows: of the training split. Those with a missing target in the longest lag or in the
                horizon are left out.
            lags: rows of the means; by default 1, a fifth of the encoder and the whole encoder.

        Raises:
            InputError: there are fewer windows without missing targets than weights.
        """
        lags = tuple(sorted(lags)) if lags else _default_lags(windows.encoder_steps)
        gram = np.zeros((1 + len(lags),) * 2)
        products = np.zeros((1 + len(lags), windows.horizon))
        count = 0
        for positions in _batches(len(windows)):
            past, actual = windows.history(positions, max(lags)), windows.actuals(positions)
            whole = ~(np.isnan(past).any(axis=1) | np.isnan(actual).any(axis=1))
            inputs, actual = _means(past[whole], lags), actual[whole]
            gram += inputs.T @ inputs
            products += inputs.T @ actual
            count += len(inputs)
        if count <= len(lags):
            raise InputError(
                f"HAR needs more windows without missing targets than its {1 + len(lags)} weights. "
                f"Received: {count}. Give a longer table."
            )
        # Means of the same rows are nearly alike, and alike where lags are: the smallest solution.
        size = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        scaled = np.linalg.pinv(gram / np.outer(size, size), hermitian=True, rcond=1e-12)
        return cls(lags, scaled @ (products / size[:, None]) / size[:, None])

    def forecast(self, windows: Windows, positions: np.ndarray) -> np.ndarray:
        """Returns the forecasts of some windows, (windows, horizon); NaN without a past target.

        Where the targets of a short lag are missing, the mean of the next longer one stands in.
        """
        return _means(windows.history(positions, max(self.lags)), self.lags) @ self.weights


def measure_baselines(
    train: Windows, windows: Windows, model: Iterator[tuple[np.ndarray, np.ndarray]] | None = None
) -> dict[str, dict[str, float]]:
    """Measures the baselines, and a model beside them, on the same windows.

    Args:
        train: windows that HAR and the mean are fitted on.
        windows: what is forecast.
        model: yields positions and the model's forecasts of them, (windows, horizon).

    Returns:
        For each forecast its `mae`, `rmse`, `r2_zero` (1 - its squared error / that of forecasting
        0) and `r2_mean` (against the mean target of the training windows), both also for the last
        step of the horizon alone (`..._last`), which shares fewest bars with the past; `values`,
        how many. Of cells without a target, or of windows without a past one, nothing counts.
    """
    har, horizon = Har.fit(train), windows.horizon
    center = _mean_target(train)
    baselines: dict[str, Forecast] = {
        "zero": lambda w, p: np.zeros((len(p), horizon)),
        "training mean": lambda w, p: np.full((len(p), horizon), center),
        "last value": lambda w, p: np.repeat(w.last_value(p)[:, None], horizon, axis=1),
        "rolling mean": lambda w, p: np.repeat(_past_mean(w, p)[:, None], horizon, axis=1),
        "HAR": har.forecast,
    }
    sums: dict[str, np.ndarray] = {}
    batches = model or ((positions, None) for positions in _batches(len(windows)))
    for positions, forecast in batches:
        forecasts = {} if forecast is None else {"model": forecast}
        forecasts |= {name: make(windows, positions) for name, make in baselines.items()}
        actual = windows.actuals(positions)
        counted = ~np.isnan(actual) & ~np.isnan(forecasts["HAR"])
        for name, values in forecasts.items():
            error = np.where(counted, actual - values, 0.0)
            own = np.stack([counted, np.abs(error), np.square(error)]).sum(axis=1)
            sums[name] = sums.get(name, 0) + own
    return {name: _measures(own, sums) for name, own in sums.items()}


def _measures(own: np.ndarray, sums: dict[str, np.ndarray]) -> dict[str, float]:
    """Returns the measures of one forecast; `sums` are (3, horizon) of each one."""
    count, absolute, squared = own.sum(axis=1)
    measures = {"values": int(count), "mae": float("nan"), "rmse": float("nan")}
    if count:
        measures |= {"mae": float(absolute / count), "rmse": float(np.sqrt(squared / count))}
    for name, other in (("r2_zero", "zero"), ("r2_mean", "training mean")):
        whole = sums[other][2]
        measures[name] = _saved(squared, whole.sum())
        measures[f"{name}_last"] = _saved(own[2, -1], whole[-1])
    return measures


def _saved(squared: float, whole: float) -> float:
    return float(1 - squared / whole) if whole else float("nan")


def _default_lags(encoder_steps: int) -> tuple[int, ...]:
    return tuple(sorted({1, max(1, encoder_steps // 5), encoder_steps}))


def _batches(count: int) -> Iterator[np.ndarray]:
    for start in range(0, count, _BATCH):
        yield np.arange(start, min(start + _BATCH, count))


def _means(past: np.ndarray, lags: tuple[int, ...]) -> np.ndarray:
    """Returns a constant 1 and the mean target of each lag, (windows, 1 + lags)."""
    means = [_nanmean(past[:, -lag:]) for lag in lags]
    for place in reversed(range(len(lags) - 1)):
        means[place] = np.where(np.isnan(means[place]), means[place + 1], means[place])
    return np.stack([np.ones(len(past)), *means], axis=1)


def _past_mean(windows: Windows, positions: np.ndarray) -> np.ndarray:
    return _nanmean(windows.history(positions, windows.encoder_steps))


def _nanmean(values: np.ndarray) -> np.ndarray:
    there = ~np.isnan(values)
    count = there.sum(axis=1)
    total = np.where(there, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mean_target(windows: Windows) -> float:
    total, count = 0.0, 0
    for positions in _batches(len(windows)):
        actual = windows.actuals(positions)
        total += float(np.nansum(actual))
        count += int((~np.isnan(actual)).sum())
    return total / max(count, 1)
