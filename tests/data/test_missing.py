import numpy as np

from tft_keras.data.missing import MissingValues


def test_indicators_follow_their_columns():
    columns = np.array([[[1, np.nan, 3], [np.nan, 5, np.nan]]], np.float32)
    values = MissingValues((False, True, True))
    assert values.variables == 5
    expanded = values.expand(columns)
    assert expanded.dtype == np.float32
    np.testing.assert_array_equal(expanded, [[[1, 0, 1, 3, 0], [0, 5, 0, 0, 1]]])


def test_without_indicators_missing_is_zero():
    expanded = MissingValues((False, False)).expand(np.array([[np.nan, 2]], np.float32))
    np.testing.assert_array_equal(expanded, [[0, 2]])


def test_no_columns():
    assert MissingValues(()).expand(np.zeros((2, 3, 0), np.float32)).shape == (2, 3, 0)
