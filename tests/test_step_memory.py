"""Predicting the memory of batch sizes that were not measured."""

from __future__ import annotations

import numpy as np
import pytest

from tft_keras.step_memory import MemoryLine


def test_a_line_through_exact_points():
    line = MemoryLine.through([16, 32, 64], [100 + 3 * b for b in (16, 32, 64)])
    assert line.at(128) == 100 + 3 * 128
    assert line.largest_batch(100 + 3 * 50 + 2) == 50


def test_a_line_through_noise_is_that_of_least_squares():
    batch_sizes, sizes = np.array([1, 2, 3, 4]), np.array([12, 19, 31, 38])
    design = np.stack([np.ones(4), batch_sizes], axis=1)
    constant, per_window = np.linalg.solve(design.T @ design, design.T @ sizes)
    line = MemoryLine.through(batch_sizes, sizes)
    assert line.constant == pytest.approx(constant)
    assert line.per_window == pytest.approx(per_window)


def test_one_point_is_a_line_from_zero():
    assert MemoryLine.through([8], [80]) == MemoryLine(0.0, 10.0)


def test_no_prediction_is_below_zero():
    assert MemoryLine.through([1, 2], [1, 5]).constant == 0
    assert MemoryLine(10.0, 1.0).largest_batch(5) == 0
