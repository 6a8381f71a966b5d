import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from tft_keras.data import Schema, columns, prepare
from tft_keras.data.keys import key as key_of
from tft_keras.data.table import ArrowTable
from tft_keras.data.time_columns import read_times
from tft_keras.errors import InputError

from .tables import SCHEMA, SMALL, assert_same_windows, shop_table


def _table(*arrays):
    return ArrowTable(pa.table({"x": pa.chunked_array(arrays)}))


def _replaced(name, array):
    table = pa.Table.from_pandas(shop_table())
    return table.set_column(table.schema.get_field_index(name), name, array)


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
INTEGERS += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("type_", [*INTEGERS, pa.float16(), pa.float32(), pa.decimal128(25, 2)])
def test_every_number_type_is_read_as_the_same_values(type_):
    whole = pa.array([3, 1, None, 2]).cast(type_)
    np.testing.assert_array_equal(columns.reals(_table(whole), "x"), [3, 1, np.nan, 2])


def test_numbers_keep_their_digits():
    big = 2**53 - 1
    np.testing.assert_array_equal(
        columns.reals(_table(pa.array([big, None, -big])), "x"), [big, np.nan, -big]
    )
    prices = pa.array([decimal.Decimal("1.25"), None], pa.decimal128(9, 2))
    np.testing.assert_array_equal(columns.reals(_table(prices), "x"), [1.25, np.nan])


def test_null_and_nan_are_both_missing():
    array = pa.array([1.0, None, float("nan")])
    np.testing.assert_array_equal(columns.reals(_table(array), "x"), [1, np.nan, np.nan])
    np.testing.assert_array_equal(columns.reals(_table(pa.nulls(2)), "x"), [np.nan, np.nan])


def test_numbers_in_a_dictionary_are_numbers_where_asked_for():
    array = pa.array([7, None, 7]).dictionary_encode()
    np.testing.assert_array_equal(columns.reals(_table(array), "x"), [7, np.nan, 7])


@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a,
        lambda a: a.cast(pa.large_string()),
        lambda a: a.cast(pa.string_view()),
        lambda a: a.cast(pa.binary()),
        lambda a: a.dictionary_encode(),
        lambda a: a.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_string())),
    ],
)
def test_every_text_type_is_read_as_the_same_categories(convert):
    codes, keys, values = columns.categories(_table(convert(pa.array(["b", None, "a", "b"]))), "x")
    assert [None if code < 0 else keys[code] for code in codes] == ["b", None, "a", "b"]
    assert [key if isinstance(key, str) else key.decode() for key in values.to_pylist()] == keys


def test_categories_match_by_value_across_dictionaries():
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", "b"]))
    second = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["b", "a"]))
    codes, keys, _ = columns.categories(_table(first, second), "x")
    assert [keys[code] for code in codes] == ["a", "b", "b", "a"]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (1, "1"),
        (1.0, "1"),
        (decimal.Decimal("1.00"), "1"),
        (1.5, "1.5"),
        (True, "true"),
        ("1", "1"),
        (b"x", "x"),
        (None, None),
        (float("nan"), None),
        (datetime.date(2024, 1, 31), "2024-01-31"),
        (2**60 + 1, str(2**60 + 1)),
    ],
)
def test_category_key(value, key):
    assert key_of(value) == key


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit(unit):
    array = pa.array([datetime.datetime(2024, 1, 1, 1)]).cast(pa.timestamp(unit))
    times, column = read_times(_table(array), "x")
    assert times.astype(f"datetime64[{unit}]")[0] == np.datetime64("2024-01-01T01")
    assert column.type == pa.timestamp(unit)


def test_times_in_a_zone_are_ordered_in_utc():
    zone = pa.timestamp("s", "Europe/Berlin")
    # 02:30 happens twice on the day when summer time ends.
    array = pa.array([1729989000, 1729992600]).cast(zone)
    times, column = read_times(_table(array), "x")
    assert times.tolist() == [1729989000, 1729992600]
    assert column.type == zone
    assert column.zone == "Europe/Berlin"


@pytest.mark.parametrize("type_", [pa.date32(), pa.date64()])
def test_dates(type_):
    times, _ = read_times(_table(pa.array([datetime.date(1970, 1, 3)]).cast(type_)), "x")
    assert times.tolist() == [2 * 86400]


def test_integer_times_keep_their_digits():
    times, column = read_times(_table(pa.array([2**53, 2**53 + 1])), "x")
    assert times.tolist() == [2**53, 2**53 + 1]
    assert column.is_index


def test_bad_times():
    with pytest.raises(InputError, match="needs a time.*no 'x' in row 3"):
        read_times(_table(pa.array([1, 2]), pa.array([3, None])), "x")
    with pytest.raises(InputError, match="64 bits"):
        read_times(_table(pa.array([2**63], pa.uint64())), "x")


CONVERSIONS = {
    "visitors": lambda a: a.cast(pa.decimal128(25, 2)),
    "weather": lambda a: a.cast(pa.large_string()),
    "kind": lambda a: a.dictionary_encode(),
    "store": lambda a: a.dictionary_encode(),
}


@pytest.mark.parametrize("column", CONVERSIONS)
def test_windows_do_not_depend_on_the_type_of_a_column(column):
    table = pa.Table.from_pandas(shop_table())
    converted = prepare(_replaced(column, CONVERSIONS[column](table[column])), SCHEMA, SMALL)
    plain = prepare(table, SCHEMA, SMALL)
    assert converted.preprocessing == plain.preprocessing
    assert_same_windows(converted.train, plain.train)
    assert_same_windows(converted.test, plain.test)


def test_windows_do_not_depend_on_the_unit_or_zone_of_time():
    table = pa.Table.from_pandas(shop_table())
    plain = prepare(table, SCHEMA, SMALL)
    for type_ in (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ms", "UTC"), pa.date32()):
        converted = prepare(_replaced("time", table["time"].cast(type_)), SCHEMA, SMALL)
        assert converted.preprocessing == plain.preprocessing
        assert_same_windows(converted.train, plain.train)
        assert converted.train.time_column([0]).type == type_


def test_integers_with_nulls_equal_doubles_with_nulls():
    frame = shop_table()
    whole = frame["visitors"].astype("Int64")
    whole[::7] = None
    left = prepare(frame.assign(visitors=whole), SCHEMA, SMALL)
    right = prepare(frame.assign(visitors=whole.astype("float64")), SCHEMA, SMALL)
    assert left.preprocessing == right.preprocessing
    assert_same_windows(left.train, right.train)
    assert "visitors is missing" in left.preprocessing.variable_names()["history"]


def test_a_boolean_target_and_a_float32_target():
    frame = shop_table()
    schema = Schema("promotion", "time", group=("store",))
    windows = prepare(frame, schema, SMALL).train
    assert set(windows.actuals(np.arange(len(windows))).ravel()) == {0.0, 1.0}
    frame["sales"] = frame["sales"].astype("float32")
    windows = prepare(frame, SCHEMA, SMALL).train
    np.testing.assert_array_equal(windows.actuals([0])[0], frame["sales"][4:6].astype(float))
