"""Measures of quantile forecasts, in NumPy, and their table beside the simple baselines.

Everything is in the target's own units. Missing targets (NaN) count nowhere. Sums are kept per
horizon step, so that windows can come batch by batch and memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def median_place(quantiles: Sequence[float]) -> int:
    """Returns the place of the quantile nearest to 0.5, which is the point forecast."""
    return int(np.abs(np.asarray(quantiles) - 0.5).argmin())


class ForecastMetrics:
    """Collects forecasts and actual values and gives the measures of them.

    With y the actual value, f_q the forecast of quantile q and m the median forecast (the quantile
    nearest to 0.5), over all cells (windows x horizon steps) with an actual value:

        quantile_loss[q]   mean of max(q (y - f_q), (q - 1) (y - f_q))     paper, equation 25
        q_risk[q]          2 x sum of the quantile losses / sum of |y|     paper, equation 26
        wql                mean of the q-risks, the weighted quantile loss
        mae, rmse          of m
        smape              mean of 2 |y - m| / (|y| + |m|), between 0 and 2; 0 where both are 0
        coverage           share of y between the lowest and the highest quantile, both included;
                           to be compared with the difference of the two quantiles
        crossing           share of cells where a higher quantile is forecast below a lower one

    Args:
        quantiles: rising; the last axis of the forecasts.
        horizon: steps of a forecast.
        point: the forecasts are single values, taken as the forecast of every quantile; there is
            no interval then, and so neither coverage nor crossing.
    """

    def __init__(self, quantiles: Sequence[float], horizon: int, point: bool = False) -> None:
        self._point = point
        self._quantiles = np.asarray(quantiles, np.float64)
        self._median = median_place(quantiles)
        names = ("cells", "magnitude", "absolute", "squared", "symmetric", "covered", "crossed")
        self._sums = {name: np.zeros(horizon) for name in names}
        self._losses = np.zeros((horizon, len(quantiles)))

    def update(self, actual: np.ndarray, forecast: np.ndarray) -> None:
        """Adds windows.

        Args:
            actual: (windows, horizon), NaN where missing.
            forecast: (windows, horizon, quantiles); a point forecast (windows, horizon).
        """
        if self._point:
            forecast = np.repeat(forecast[..., None], len(self._quantiles), axis=-1)
        scored = ~np.isnan(actual)
        actual = np.where(scored, actual, 0.0).astype(np.float64)
        forecast = np.where(scored[..., None], forecast, 0.0).astype(np.float64)
        middle = forecast[..., self._median]
        error = actual - middle
        magnitude = np.abs(actual) + np.abs(middle)
        inside = (forecast[..., 0] <= actual) & (actual <= forecast[..., -1])
        cells = {
            "cells": scored,
            "magnitude": np.abs(actual),
            "absolute": np.abs(error),
            "squared": np.square(error),
            "symmetric": 2 * np.abs(error) / np.where(magnitude > 0, magnitude, 1),
            "covered": inside & scored,
            "crossed": (np.diff(forecast, axis=-1) < 0).any(axis=-1),
        }
        for name, values in cells.items():
            self._sums[name] += values.sum(axis=0)
        self._losses += quantile_loss(actual, forecast, self._quantiles).sum(axis=0)

    def result(self) -> dict[str, Any]:
        """Returns the measures over all cells and, under `steps`, for each horizon step."""
        total = {name: values.sum() for name, values in self._sums.items()}
        measures = self._measures(total, self._losses.sum(axis=0))
        measures["steps"] = [
            {
                "step": step + 1,
                **self._measures({n: v[step] for n, v in self._sums.items()}, self._losses[step]),
            }
            for step in range(len(self._losses))
        ]
        return measures

    def _measures(self, sums: Mapping[str, float], losses: np.ndarray) -> dict[str, Any]:
        cells = sums["cells"]
        interval = len(self._quantiles) > 1 and not self._point
        return {
            "cells": int(cells),
            "quantile_loss": self._by_quantile(_share(loss, cells) for loss in losses),
            "q_risk": self._by_quantile(_share(2 * loss, sums["magnitude"]) for loss in losses),
            "wql": _share(2 * losses.mean(), sums["magnitude"]),
            "mae": _share(sums["absolute"], cells),
            "rmse": None if cells == 0 else float(np.sqrt(sums["squared"] / cells)),
            "smape": _share(sums["symmetric"], cells),
            "coverage": _share(sums["covered"], cells) if interval else None,
            "crossing": _share(sums["crossed"], cells) if interval else None,
        }

    def _by_quantile(self, values: Any) -> dict[str, float | None]:
        return {f"{q:g}": value for q, value in zip(self._quantiles, values, strict=True)}


def quantile_loss(
    actual: np.ndarray, forecast: np.ndarray, quantiles: Sequence[float]
) -> np.ndarray:
    """Returns the quantile loss of every cell, as the shape of `forecast`.

    Args:
        actual: (...).
        forecast: (..., quantiles).
        quantiles: one number per entry of the last axis.
    """
    error = actual[..., None] - forecast
    quantiles = np.asarray(quantiles)
    return np.maximum(quantiles * error, (quantiles - 1) * error)


def table(split: str, results: Mapping[str, Mapping[str, Any]], steps: bool = True) -> str:
    """Returns the measures of several forecasts of the same windows as aligned text.

    Args:
        split: name of the split, for the title.
        results: from the forecast's name to `ForecastMetrics.result`'s dict.
        steps: also give a line for each horizon step of each forecast.
    """
    rows = [_row("all", name, result) for name, result in results.items()]
    if steps:
        count = len(next(iter(results.values()))["steps"])
        rows += [
            _row(str(step + 1), name, result["steps"][step])
            for step in range(count)
            for name, result in results.items()
        ]
    cells = next(iter(results.values()))["cells"]
    return f"{split}: {cells:,} values\n{_aligned([_header(results), *rows])}"


def _header(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    quantiles = next(iter(results.values()))["q_risk"]
    names = [f"loss {q}" for q in quantiles] + [f"q-risk {q}" for q in quantiles]
    return ["step", "forecast", *names, "WQL", "MAE", "RMSE", "SMAPE", "coverage", "crossing"]


def _row(step: str, name: str, measures: Mapping[str, Any]) -> list[str]:
    values = [
        *measures["quantile_loss"].values(),
        *measures["q_risk"].values(),
        *(measures[key] for key in ("wql", "mae", "rmse", "smape", "coverage", "crossing")),
    ]
    return [step, name, *("-" if value is None else f"{value:.4g}" for value in values)]


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            # Names to the left, numbers to the right.
            cell.ljust(width) if index == 1 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _share(part: float, whole: float) -> float | None:
    return None if whole == 0 else float(part / whole)
