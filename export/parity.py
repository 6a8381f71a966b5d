"""The same windows through the trained model and through the exported files, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from tft_keras.data import Windows


def chosen_positions(windows: Windows, count: int) -> np.ndarray:
    """Returns `count` positions, evenly spaced; all if `count` is 0 or there are no more."""
    if not count or count >= len(windows):
        return np.arange(len(windows))
    return np.linspace(0, len(windows) - 1, count).round().astype(np.int64)


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
    speed = f"; {row['milliseconds']:.3f} ms a call" if "milliseconds" in row else ""
    if "within_one" in row:
        return (
            f"{row['equal']:.2%} equal, {row['within_one']:.2%} within 1 step, "
            f"mean {row['mean']:.4f}, largest {row['largest']:.0f} steps{speed}"
        )
    return f"{row['relative']:.1e} relative{speed}" if "relative" in row else ""
