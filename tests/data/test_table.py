import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tft_keras.config import DataConfig
from tft_keras.data import Schema, open_table, prepare
from tft_keras.errors import InputError

from .tables import SCHEMA, SMALL, assert_same_windows, shop_table


def _values(table, column):
    return [value for chunk in table.chunks(column) for value in chunk.to_pylist()]


def test_reads_a_file_a_folder_and_a_glob(tmp_path):
    frame = shop_table()
    frame[:50].to_parquet(tmp_path / "part-2.parquet")
    frame[50:].to_parquet(tmp_path / "part-10.parquet")
    for source in (tmp_path, str(tmp_path), tmp_path / "part-*.parquet"):
        table = open_table(source)
        assert table.rows == len(frame)
        assert _values(table, "sales") == frame["sales"].tolist()
    assert open_table(tmp_path / "part-2.parquet").rows == 50


def test_a_folder_is_searched_through_but_for_hidden_files(tmp_path):
    for name in ("a/x.parquet", "_temporary/y.parquet", ".z.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shop_table(1).to_parquet(tmp_path / name)
    assert open_table(tmp_path).rows == 30


def test_files_may_have_their_columns_in_any_order(tmp_path):
    frame = shop_table()
    frame[:45].to_parquet(tmp_path / "a.parquet")
    frame[45:][frame.columns[::-1]].to_parquet(tmp_path / "b.parquet")
    files, memory = prepare(tmp_path, SCHEMA, SMALL), prepare(frame, SCHEMA, SMALL)
    assert files.preprocessing == memory.preprocessing
    assert_same_windows(files.train, memory.train)


def test_shuffled_rows_and_files_make_the_same_windows(tmp_path):
    frame = shop_table()
    shuffled = frame.sample(frac=1, random_state=1)
    shuffled[:20].to_parquet(tmp_path / "part-10.parquet")
    shuffled[20:].to_parquet(tmp_path / "part-2.parquet")
    files, memory = prepare(tmp_path, SCHEMA, SMALL), prepare(frame, SCHEMA, SMALL)
    assert files.preprocessing == memory.preprocessing
    for split in ("train", "validation", "test"):
        assert_same_windows(getattr(files, split), getattr(memory, split))


@pytest.mark.filterwarnings("ignore:Column .* the model can learn nothing")
def test_files_may_differ_in_number_type_and_in_null_columns(tmp_path):
    frame = shop_table(1)
    table = pa.Table.from_pandas(frame)
    place = table.schema.get_field_index
    first = table.slice(0, 15).set_column(
        place("visitors"), "visitors", table["visitors"].slice(0, 15).cast(pa.int32())
    )
    first = first.set_column(place("price"), "price", pa.nulls(15))
    pq.write_table(first, tmp_path / "a.parquet")
    pq.write_table(table.slice(15), tmp_path / "b.parquet")
    frame.loc[:14, "price"] = None
    files, memory = prepare(tmp_path, SCHEMA, SMALL), prepare(frame, SCHEMA, SMALL)
    assert files.preprocessing == memory.preprocessing
    assert_same_windows(files.train, memory.train)


def test_a_file_without_a_column_is_named(tmp_path):
    frame = shop_table()
    frame[:45].to_parquet(tmp_path / "a.parquet")
    frame[45:].drop(columns="price").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"no 'price' in .*b\.parquet"):
        prepare(tmp_path, SCHEMA, SMALL)


def test_pandas_and_arrow_tables_are_alike():
    frame = shop_table()
    left = prepare(frame, SCHEMA, SMALL)
    assert_same_windows(left.train, prepare(pa.Table.from_pandas(frame), SCHEMA, SMALL).train)


def test_a_named_index_is_a_column():
    frame = shop_table(1).set_index("time")
    assert len(prepare(frame, Schema("sales", "time"), SMALL).train)


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "sales.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"sales\.csv.*read_csv"):
        open_table(tmp_path / "sales.csv")
    with pytest.raises(InputError, match=r"Received: .*sale\.csv.*Did you mean 'sales.csv'"):
        open_table(tmp_path / "sale.csv")
    with pytest.raises(InputError, match="There is no folder"):
        open_table(tmp_path / "nowhere" / "x.parquet")
    with pytest.raises(InputError, match="Received: list"):
        open_table([1, 2])
    with pytest.raises(InputError, match="must have rows"):
        open_table(pd.DataFrame({"a": []}))
    with pytest.raises(InputError, match="one type"):
        open_table(pd.DataFrame({"a": [1, "x"]}))


def test_files_may_differ_in_the_unit_of_time_and_in_dictionaries(tmp_path):
    table = pa.Table.from_pandas(shop_table())
    place = table.schema.get_field_index
    for number, unit in enumerate(("s", "ns", "us")):
        part = table.slice(30 * number, 30)
        part = part.set_column(place("time"), "time", part["time"].cast(pa.timestamp(unit)))
        codes = part["weather"].slice(number).combine_chunks().dictionary_encode()
        values = pa.concat_arrays([codes.dictionary.take(pa.array([1, 0]))])
        encoded = pa.DictionaryArray.from_arrays(
            pa.array([values.to_pylist().index(v) for v in part["weather"].to_pylist()]), values
        )
        part = part.set_column(place("weather"), "weather", encoded)
        pq.write_table(part, tmp_path / f"{number}.parquet")
    files, memory = prepare(tmp_path, SCHEMA, SMALL), prepare(table, SCHEMA, SMALL)
    assert files.preprocessing == memory.preprocessing
    assert_same_windows(files.train, memory.train)
    assert files.train.time_column([0]).type == pa.timestamp("ns")


def test_files_with_and_without_a_time_zone_are_refused(tmp_path):
    frame = shop_table()
    frame[:45].to_parquet(tmp_path / "a.parquet")
    zoned = frame[45:].assign(time=frame["time"].dt.tz_localize("UTC"))
    zoned.to_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="agree on the kind of time.*UTC"):
        prepare(tmp_path, SCHEMA, SMALL)


@pytest.mark.parametrize("target", ["y", "Y", "y "])
def test_columns_that_differ_by_case_or_a_space_are_different_columns(target):
    values = {"y": np.arange(60.0), "Y": np.arange(60.0) + 100, "y ": np.arange(60.0) * 2}
    table = pd.DataFrame({"T ": pd.date_range("2024", periods=60), **values})
    others = [name for name in values if name != target]
    data = prepare(table, Schema(target, "T ", observed=others), DataConfig(5, 2))
    np.testing.assert_array_equal(data.train.actuals([0])[0], values[target][5:7])
