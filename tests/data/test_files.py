import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tft_keras.data import open_table, prepare
from tft_keras.errors import InputError

from .tables import SCHEMA, SMALL, assert_same_windows, shop_table


def test_hive_partitions_are_columns(tmp_path):
    frame = shop_table()
    frame.to_parquet(tmp_path / "parts", partition_cols=["store"])
    plain, parted = (prepare(source, SCHEMA, SMALL) for source in (frame, str(tmp_path / "parts")))
    assert parted.preprocessing == plain.preprocessing
    assert_same_windows(parted.train, plain.train)


def test_partition_values_are_numbers_only_where_all_are(tmp_path):
    for folder in ("id=1", "id=10", "kind=01"):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"y": [1.0]}), tmp_path / folder / "part.parquet")
    columns = open_table(tmp_path).columns
    assert columns["id"] == pa.int64()
    assert columns["kind"] == pa.string()


def test_an_address_is_read_like_a_path():
    frame = shop_table()
    with fsspec.open("memory://shop/table.parquet", "wb") as file:
        frame.to_parquet(file)
    plain = prepare(frame, SCHEMA, SMALL)
    for address in ("memory://shop/table.parquet", "memory://shop", "memory://shop/*.parquet"):
        read = prepare(address, SCHEMA, SMALL)
        assert read.preprocessing == plain.preprocessing
        assert_same_windows(read.train, plain.train)


@pytest.mark.parametrize("address", ["memory://nothing/here", "nosuch://x/y"])
def test_an_address_without_a_table_is_one_error(address):
    with pytest.raises(InputError, match=f"Received: {address}"):
        open_table(address)


def test_parts_are_in_natural_order(tmp_path):
    for number in (2, 10, 1):
        pq.write_table(pa.table({"y": [float(number)]}), tmp_path / f"part-{number}.parquet")
    chunks = list(open_table(tmp_path).chunks("y"))
    assert np.concatenate([c.to_numpy() for c in chunks]).tolist() == [1, 2, 10]
