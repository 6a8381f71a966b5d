import dataclasses

import numpy as np
import pytest

from tft_keras.data import prepare
from tft_keras.data.batches import drop_to_unknown, epoch_order

from .tables import SCHEMA, SMALL, shop_table


@pytest.fixture(scope="module")
def windows():
    return prepare(shop_table(), SCHEMA, SMALL).train


def _as_lists(batches):
    return [
        (np.asarray(inputs["observed_real"]), np.asarray(targets)) for inputs, targets in batches
    ]


def _assert_equal(left, right):
    left, right = _as_lists(left), _as_lists(right)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def test_an_epoch_has_every_window_once():
    order = epoch_order(100, 3, 0, 0)
    assert sorted(order) == list(range(100))
    assert list(order) != list(range(100))
    assert list(epoch_order(100, None, 5, 0)) == list(range(100))


def test_the_order_depends_on_seed_and_epoch_only():
    np.testing.assert_array_equal(epoch_order(100, 3, 7, 0), epoch_order(100, 3, 7, 0))
    assert not np.array_equal(epoch_order(100, 3, 7, 0), epoch_order(100, 3, 8, 0))
    assert not np.array_equal(epoch_order(100, 3, 7, 0), epoch_order(100, 4, 7, 0))


def test_windows_per_epoch_are_drawn_anew():
    first, second = epoch_order(100, 0, 0, 10), epoch_order(100, 0, 1, 10)
    assert len(set(first)) == len(set(second)) == 10
    assert set(first) != set(second)
    assert list(epoch_order(100, None, 0, 4)) == [0, 25, 50, 75]
    assert len(epoch_order(5, 0, 0, 10)) == 5


def test_categories_are_dropped_to_unknown_in_their_share():
    inputs = {"known_categorical": np.ones((100, 20, 3), np.int32), "known_real": np.ones((100, 1))}
    drop_to_unknown(inputs, 0.1, (0, 0, 0))
    assert 0.08 < (inputs["known_categorical"] == 0).mean() < 0.12
    assert (inputs["known_real"] == 1).all()


def test_only_shuffled_batches_drop_categories():
    config = dataclasses.replace(SMALL, unknown_share=0.5)
    windows = prepare(shop_table(), SCHEMA, config).train

    def zeros(**settings):
        codes = [inputs["known_categorical"] for inputs, _ in windows.batches(8, **settings)]
        return sum(int((part == 0).sum()) for part in codes)

    assert zeros() == 0
    assert zeros(shuffle_seed=1) > 0
    assert zeros(shuffle_seed=1) == zeros(shuffle_seed=1)
    assert (windows.gather([0])[0]["known_categorical"] > 0).all()


def test_dataset_has_the_batches_of_its_epochs(windows):
    dataset = windows.dataset(16, shuffle_seed=5, first_epoch=2, epochs=2)
    expected = [*windows.batches(16, shuffle_seed=5, epoch=2)]
    expected += windows.batches(16, shuffle_seed=5, epoch=3)
    _assert_equal(dataset, expected)
    assert int(dataset.cardinality()) == len(expected) == 2 * windows.steps_per_epoch(16)


def test_iterating_again_goes_on_with_the_next_epochs(windows):
    dataset = windows.dataset(16, shuffle_seed=5)
    _assert_equal(dataset, windows.batches(16, shuffle_seed=5, epoch=0))
    _assert_equal(dataset, windows.batches(16, shuffle_seed=5, epoch=1))
    in_order = windows.dataset(16)
    _assert_equal(in_order, windows.batches(16))
    _assert_equal(in_order, windows.batches(16))


def test_an_endless_dataset_can_be_resumed_at_an_epoch(windows):
    steps = windows.steps_per_epoch(16)
    endless = windows.dataset(16, shuffle_seed=5, epochs=None)
    resumed = windows.dataset(16, shuffle_seed=5, first_epoch=2, epochs=None)
    _assert_equal(endless.skip(2 * steps).take(steps + 3), resumed.take(steps + 3))
    assert int(endless.cardinality()) == -1


def test_the_last_batch_may_be_smaller(windows):
    sizes = [len(targets) for _, targets in windows.dataset(16)]
    assert sum(sizes) == len(windows)
    assert sizes[:-1] == [16] * (len(sizes) - 1)
    assert windows.steps_per_epoch(16, windows_per_epoch=20) == 2
    assert [len(t) for _, t in windows.dataset(16, windows_per_epoch=20)] == [16, 4]


def test_types_and_shapes_are_known_before_the_first_batch(windows):
    inputs, targets = windows.dataset(16).element_spec
    assert inputs["known_real"].shape.as_list() == [None, 6, 1]
    assert inputs["static_categorical"].dtype.as_numpy_dtype is np.int32
    assert targets.shape.as_list() == [None, 2]
