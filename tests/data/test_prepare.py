import dataclasses
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tft_keras import ModelConfig
from tft_keras.data import Preprocessing, Schema, Skipped, prepare, prepare_again
from tft_keras.errors import InputError

from .tables import SCHEMA, SMALL, all_windows, assert_same_windows, shop_table


def test_names_and_sizes_of_the_inputs():
    frame = shop_table()
    frame.loc[3, ["price", "sales"]] = None
    preprocessing = prepare(frame, SCHEMA, SMALL).preprocessing
    assert preprocessing.variable_names() == {
        "static": ["size", "kind"],
        "history": [
            *("sales", "sales is missing", "visitors"),
            *("price", "price is missing", "weather", "promotion"),
        ],
        "future": ["price", "price is missing", "promotion"],
    }
    sizes = preprocessing.model_sizes()
    assert sizes == {
        "encoder_steps": 4,
        "horizon": 2,
        "static_real": 1,
        "static_categorical": (3,),
        "known_real": 2,
        "known_categorical": (3,),
        "observed_real": 3,
        "observed_categorical": (3,),
    }
    assert ModelConfig(**sizes).variables("observed", "known") == 7


def test_inputs_have_the_sizes_that_the_model_is_told():
    data = prepare(shop_table(), SCHEMA, SMALL)
    inputs, targets = all_windows(data.train)
    sizes, count = data.preprocessing.model_sizes(), len(data.train)
    for role, steps in (("static", ()), ("known", (6,)), ("observed", (4,))):
        assert inputs[f"{role}_real"].shape == (count, *steps, sizes[f"{role}_real"])
        assert inputs[f"{role}_real"].dtype == np.float32
        categorical = inputs[f"{role}_categorical"]
        assert categorical.shape == (count, *steps, len(sizes[f"{role}_categorical"]))
        assert categorical.dtype == np.int32
    assert targets.shape == (count, 2)
    assert targets.dtype == np.float32


def test_values_of_a_window():
    frame = shop_table()
    data = prepare(frame, SCHEMA, SMALL)
    training = frame[frame.index % 30 < 18]
    inputs, targets = data.train.gather([13])  # 13 windows of the first store, then the second
    rows = frame[30:36]

    def scaled(column, values):
        return (values - training[column].mean()) / training[column].std(ddof=0)

    np.testing.assert_allclose(
        inputs["observed_real"][0, :, 0], scaled("sales", rows["sales"][:4]), rtol=1e-5
    )
    np.testing.assert_allclose(
        inputs["known_real"][0, :, 0], scaled("price", rows["price"]), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(targets[0], scaled("sales", rows["sales"][4:]), rtol=1e-5)
    assert inputs["known_categorical"][0, :, 0].tolist() == [1 + p for p in rows["promotion"]]
    weather = {"rain": 1, "sun": 2}
    assert inputs["observed_categorical"][0, :, 0].tolist() == [
        weather[w] for w in rows["weather"][:4]
    ]
    # Static values count once for each series: 0, 1, 2 have the mean 1.
    assert inputs["static_real"].tolist() == [[0.0]]
    assert inputs["static_categorical"].tolist() == [[1]]  # "large" of "large", "small"


def test_the_smallest_schema():
    frame = pd.DataFrame({"t": np.arange(40), "y": np.sin(np.arange(40))})
    data = prepare(frame, Schema("y", "t"), SMALL)
    inputs, _ = all_windows(data.train)
    assert list(inputs) == ["observed_real"]
    assert data.train.series([0]) == [()]


def test_numbers_said_to_be_categories():
    schema = dataclasses.replace(SCHEMA, categorical=("visitors",))
    frame = shop_table().assign(visitors=lambda f: f["visitors"] % 3)
    preprocessing = prepare(frame, schema, SMALL).preprocessing
    assert preprocessing.vocabularies["visitors"].keys == ["0", "1", "2"]


def test_goes_to_json_and_back():
    config = dataclasses.replace(SMALL, scale_per_series=True, target_log1p=True)
    data = prepare(shop_table(), SCHEMA, config)
    stored = json.loads(json.dumps(data.preprocessing.to_dict(), allow_nan=False))
    loaded = Preprocessing.from_dict(stored)
    assert loaded == data.preprocessing
    again = prepare_again(shop_table(), loaded)
    for split in ("train", "validation", "test"):
        assert_same_windows(getattr(data, split), getattr(again, split))


def test_applied_to_another_table_nothing_is_fitted():
    fitted = prepare(shop_table(), SCHEMA, SMALL).preprocessing
    other = shop_table(4, seed=5).assign(weather="fog")
    message = r"'weather'.*such as 'fog', in 120 of 120 rows"
    with pytest.warns(UserWarning, match=message) as caught:
        data = prepare_again(other, fitted)
    assert len(caught) == 1
    assert data.preprocessing == fitted
    inputs, _ = all_windows(data.train)
    assert (inputs["observed_categorical"] == 0).all()
    scaled = (other["sales"][0] - fitted.target_scaler.center) / fitted.target_scaler.scale
    np.testing.assert_allclose(inputs["observed_real"][0, 0, 0], scaled, rtol=1e-5)


def test_a_series_never_seen_is_scaled_like_all():
    config = dataclasses.replace(SMALL, scale_per_series=True)
    fitted = prepare(shop_table(2), SCHEMA, config).preprocessing
    with pytest.warns(UserWarning, match=r"1 of 3 series .* scaled like all.*store='s2'"):
        windows = prepare_again(shop_table(3), fitted).train
    scaler = fitted.target_scaler
    last = len(windows) - 1
    assert windows.series([last]) == [("s2",)]
    np.testing.assert_allclose(
        windows.unscale([0, last], np.ones((2, 2, 1)))[:, 0, 0],
        [scaler.series_center[0] + scaler.series_scale[0], scaler.center + scaler.scale],
    )
    _, targets = windows.gather([0, last])
    np.testing.assert_allclose(
        windows.unscale([0, last], targets), windows.actuals([0, last]), rtol=1e-5
    )


def test_missing_targets_are_marked_and_windows_without_any_left_out():
    frame = shop_table(1)
    frame.loc[8:10, "sales"] = None
    windows = prepare(frame, Schema("sales", "time"), SMALL).train
    # Horizons start at rows 4 to 16; those at 8 and 9 have no target at all.
    assert len(windows) == 11
    inputs, targets = windows.gather([3, 4])
    np.testing.assert_array_equal(np.isnan(targets), [[False, True], [True, False]])
    np.testing.assert_array_equal(inputs["observed_real"][1, :, 1], [0, 0, 1, 1])
    assert np.isfinite(inputs["observed_real"]).all()


def test_infinity_names_the_column_the_series_and_the_row():
    frame = shop_table().sample(frac=1, random_state=0).reset_index(drop=True)
    row = int(np.flatnonzero(frame["store"] == "s1")[0])
    frame.loc[row, "price"] = -np.inf
    with pytest.raises(
        InputError, match=rf"price=-inf in series \(store='s1'\).*row={row} .*1 such"
    ):
        prepare(frame, SCHEMA, SMALL)


def test_a_negative_target_has_no_logarithm():
    frame = shop_table()
    frame.loc[31, "sales"] = -1
    with pytest.raises(InputError, match=r"sales=-1.0 in series \(store='s1'\), time=2024-01-02"):
        prepare(frame, SCHEMA, dataclasses.replace(SMALL, target_log1p=True))


def test_a_static_column_that_varies_is_named():
    frame = shop_table()
    frame.loc[40, "size"] = 7
    with pytest.raises(InputError, match=r"size=.*1.0.* and .*7.0.* in series \(store='s1'\)"):
        prepare(frame, SCHEMA, SMALL)
    frame = shop_table()
    frame.loc[70, "kind"] = "huge"
    with pytest.raises(InputError, match=r"kind='small' and 'huge' in series \(store='s2'\)"):
        prepare(frame, SCHEMA, SMALL)


def test_a_static_value_may_be_missing_in_some_rows():
    frame = shop_table()
    frame.loc[[0, 31], ["size", "kind"]] = None
    assert_same_windows(
        prepare(frame, SCHEMA, SMALL).train, prepare(shop_table(), SCHEMA, SMALL).train
    )


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("price", 0.1, "'price' is constant"),
        ("price", None, "'price' is missing throughout"),
        ("visitors", np.nan, "'visitors' is missing throughout"),
        ("weather", "sun", "'weather' has fewer than two categories"),
        ("weather", None, "'weather' (has fewer than two categories|is missing)"),
        ("size", 3.0, "'size' is constant"),
        ("sales", 7.0, "'sales' is constant"),
    ],
)
def test_a_column_without_information_is_warned_of_and_does_no_harm(column, values, message):
    frame = shop_table()
    frame[column] = values
    with pytest.warns(UserWarning, match=message):
        data = prepare(frame, SCHEMA, SMALL)
    inputs, targets = all_windows(data.train)
    assert all(np.isfinite(array).all() for array in (*inputs.values(), targets))
    assert f"{column} is missing" not in data.preprocessing.variable_names()["history"]


def test_a_constant_target_can_still_be_forecast_away_from():
    with pytest.warns(UserWarning, match="constant"):
        windows = prepare(shop_table().assign(sales=7.0), SCHEMA, SMALL).train
    np.testing.assert_array_equal(windows.unscale([0], np.array([[-1.0, 2.0]])), [[6, 9]])


def test_a_target_missing_in_all_training_rows():
    frame = shop_table()
    frame.loc[frame.index % 30 < 20, "sales"] = None
    config = dataclasses.replace(SMALL, validation="2024-01-19", test=0.0)
    with pytest.raises(InputError, match="'sales' missing in all 54"):
        prepare(frame, SCHEMA, config)


def test_missing_is_a_category_of_its_own():
    frame = shop_table()
    frame.loc[::4, "weather"] = None
    data = prepare(frame, SCHEMA, SMALL)
    assert data.preprocessing.vocabularies["weather"].size == 4
    inputs, _ = data.train.gather([0])
    assert inputs["observed_categorical"][0, 0, 0] == 3


def test_short_series_are_listed_and_skipped():
    frame = shop_table()
    frame = frame[(frame["store"] != "s1") | (frame.index % 30 < 5)]
    # The one series of the other kind is not trained, so that kind is no category.
    with pytest.warns(UserWarning, match="'kind' has fewer than two categories"):
        data = prepare(frame, SCHEMA, SMALL)
    assert data.skipped == [Skipped(("s1",), 5, 6)]
    assert ("s1",) not in data.train.series(np.arange(len(data.train)))


def test_if_all_series_are_short_the_lengths_are_told():
    with pytest.raises(InputError, match="needs 42 rows.*encoder_steps=40, horizon=2, at most 30"):
        prepare(shop_table(), SCHEMA, dataclasses.replace(SMALL, encoder_steps=40))


def test_a_thousand_series_take_no_time():
    rows, series = 60, 1000
    frame = pd.DataFrame(
        {
            "g": np.repeat(np.arange(series), rows),
            "t": np.tile(np.arange(rows), series),
            "y": np.random.default_rng(0).normal(size=rows * series),
        }
    )
    config = dataclasses.replace(SMALL, scale_per_series=True)
    data = prepare(frame, Schema("y", "t", group=("g",)), config)
    assert len(data.preprocessing.target_scaler.series_center) == series
    assert len(data.train) == series * (36 - 5)


def test_the_data_layer_imports_neither_tensorflow_nor_pandas():
    code = (
        "import sys, tft_keras.data, tft_keras.data.demo\n"
        "sys.exit(bool({'tensorflow', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
