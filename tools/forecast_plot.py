"""Draws history, forecast and interval of a few series."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from tft_keras.errors import InputError
from tft_keras.metrics import median_place

_HISTORY, _FORECAST = "#1f3a5f", "#d1495b"


def check(path: str) -> None:
    """Raises `InputError` if a picture cannot be drawn to `path`, before any work is done."""
    if not path.endswith(".png"):
        raise InputError(f"plot must end in .png. Received: plot={path!r}.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            f"Drawing needs matplotlib. Received: plot={path!r} without it. "
            "Install it with `pip install matplotlib`."
        ) from None


def draw(run: Any, windows: Any, forecasts: Any, count: int, path: pathlib.Path) -> None:
    """Draws the first `count` series, one above the other, as a PNG.

    Args:
        run: that forecast.
        windows: one per series.
        forecasts: table of `forecast_table(run, windows)`.
        count: how many series.
        path: file to write.
    """
    from matplotlib.dates import ConciseDateFormatter
    from matplotlib.figure import Figure

    count = min(count, len(windows))
    figure = Figure(figsize=(9, 2.3 * count), layout="constrained")
    panels = figure.subplots(count, 1, squeeze=False)[:, 0]
    positions, steps = np.arange(count), run.config.data.encoder_steps
    past = windows.history(positions, steps)
    past_times = windows.wall_clock(windows.history_times(positions, steps))
    ahead = windows.wall_clock(windows.times(positions))
    for index, (panel, series) in enumerate(zip(panels, windows.series(positions), strict=True)):
        _draw_history(panel, past_times[index], past[index])
        _draw_forecast(panel, ahead[index], *_rows_of(forecasts, run, index))
        if np.issubdtype(ahead.dtype, np.datetime64):
            panel.xaxis.set_major_formatter(ConciseDateFormatter(panel.xaxis.get_major_locator()))
        panel.set_title(", ".join(map(str, series)), loc="left", fontsize=9)
        panel.set_ylabel(run.config.schema.target)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel(run.config.schema.time)
    panels[0].legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, ncols=3)
    figure.savefig(path, dpi=130, format="png")


def _rows_of(forecasts: Any, run: Any, index: int) -> tuple[np.ndarray, list[float]]:
    """Returns the forecasts of one series, (horizon, quantiles), and which quantiles they are."""
    horizon = run.config.model.horizon
    rows = forecasts.slice(index * horizon, horizon)
    names = rows.column_names[rows.column_names.index("step") + 1 :]
    values = np.stack([rows[name].to_numpy() for name in names], axis=-1)
    return values, [float(name.removeprefix("q")) for name in names]


def _draw_history(panel: Any, times: np.ndarray, values: np.ndarray) -> None:
    panel.plot(times, values, color=_HISTORY, lw=1.2, label="history")
    panel.axvline(times[-1], color="0.6", lw=0.8, ls=":")


def _draw_forecast(panel: Any, times: np.ndarray, rows: np.ndarray, quantiles: Any) -> None:
    quantiles = np.asarray(quantiles)
    median = median_place(quantiles)
    panel.plot(times, rows[:, median], color=_FORECAST, lw=1.6, label="forecast")
    if len(quantiles) > 1:
        label = f"{quantiles[0]:g} to {quantiles[-1]:g} quantile"
        panel.fill_between(
            times, rows[:, 0], rows[:, -1], color=_FORECAST, alpha=0.2, lw=0, label=label
        )
