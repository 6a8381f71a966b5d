import dataclasses
import os

import numpy as np
import pyarrow as pa
import pytest

from tft_keras.data import prepare, prepare_again
from tft_keras.data.cache import Cache
from tft_keras.data.vocabulary import Vocabulary

from .tables import SCHEMA, SMALL, assert_same_windows, shop_table


@pytest.fixture
def table(tmp_path):
    frame = shop_table().sample(frac=1, random_state=0)
    frame.loc[frame.index % 9 == 0, "price"] = None
    frame.to_parquet(tmp_path / "sales.parquet")
    return tmp_path / "sales.parquet"


def _config(tmp_path, **settings):
    return dataclasses.replace(SMALL, cache=str(tmp_path / "cache"), **settings)


def _files(tmp_path):
    return sorted((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("chunk_bytes", [64, 1 << 25])
def test_cached_and_plain_windows_are_the_same(tmp_path, table, monkeypatch, chunk_bytes):
    monkeypatch.setattr("tft_keras.data.cache._CHUNK_BYTES", chunk_bytes)
    plain = prepare(table, SCHEMA, SMALL)
    for _ in range(2):
        cached = prepare(table, SCHEMA, _config(tmp_path))
        for split in ("train", "validation", "test"):
            assert_same_windows(getattr(plain, split), getattr(cached, split))
        assert len(_files(tmp_path)) == 1


def test_the_rows_are_mapped_not_read(tmp_path, table):
    store = prepare(table, SCHEMA, _config(tmp_path)).train.store
    for array in (store.known_real, store.observed_real, store.target, store.known_categorical):
        assert not array.flags.owndata
        assert not array.flags.writeable


def test_the_file_is_one_arrow_record_batch(tmp_path, table):
    prepare(table, SCHEMA, _config(tmp_path))
    reader = pa.ipc.open_file(pa.memory_map(str(_files(tmp_path)[0])))
    assert reader.num_record_batches == 1
    batch = reader.get_batch(0)
    assert batch.num_rows == 90
    assert batch.schema.field("known_real").type == pa.list_(pa.float32(), 1)
    sales = shop_table()["sales"]
    np.testing.assert_array_equal(batch.column("target").to_numpy(), sales)


def test_a_cache_is_used_again_only_for_the_same_files_and_settings(tmp_path, table, monkeypatch):
    config = _config(tmp_path)
    fitted = prepare(table, SCHEMA, config).preprocessing
    written = []
    write = Cache.write
    monkeypatch.setattr(
        Cache, "write", lambda self, *rest: (written.append(self.path), write(self, *rest))
    )
    prepare(table, SCHEMA, config)
    assert not written
    prepare(table, SCHEMA, _config(tmp_path, scaling="robust"))
    prepare(table, dataclasses.replace(SCHEMA, observed=("weather",)), config)
    prepare_again(table, fitted)  # was fitted on this very table: its cache will do
    assert len(set(written)) == 2
    other = fitted.vocabularies | {"weather": Vocabulary(["sun"], False)}
    with pytest.warns(UserWarning, match="'weather' has categories that were not trained"):
        prepare_again(table, dataclasses.replace(fitted, vocabularies=other))
    assert len(set(written)) == 3
    os.utime(table, ns=(1, 1))
    prepare(table, SCHEMA, config)
    assert len(set(written)) == 4


def test_a_table_in_memory_has_no_cache(tmp_path):
    prepare(shop_table(), SCHEMA, _config(tmp_path))
    assert not (tmp_path / "cache").exists()


def test_a_writer_that_fails_leaves_nothing(tmp_path, table, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("tft_keras.data.cache._write_matrices", fail)
    with pytest.raises(OSError, match="disk full"):
        prepare(table, SCHEMA, _config(tmp_path))
    assert not _files(tmp_path)


def test_a_broken_file_is_made_anew(tmp_path, table):
    config = _config(tmp_path)
    plain = prepare(table, SCHEMA, config)
    path = _files(tmp_path)[0]
    whole = path.read_bytes()
    path.unlink()  # the old rows stay mapped
    path.write_bytes(whole[:100])
    assert_same_windows(prepare(table, SCHEMA, config).train, plain.train)


def test_without_known_inputs(tmp_path, table):
    schema = dataclasses.replace(SCHEMA, known=())
    plain, cached = prepare(table, schema, SMALL), prepare(table, schema, _config(tmp_path))
    assert_same_windows(plain.train, cached.train)


def test_the_settings_are_those_asked_for_now(tmp_path, table):
    prepare(table, SCHEMA, _config(tmp_path))
    relative = dataclasses.replace(SMALL, cache=f"{tmp_path}/../{tmp_path.name}/cache")
    assert prepare(table, SCHEMA, relative).preprocessing.config == relative
    assert len(_files(tmp_path)) == 1
