"""Files and folders appear whole or not at all."""

from __future__ import annotations

import pytest

from tft_keras import atomic


def test_a_file_is_replaced_at_the_end(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with atomic.replacing(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
        assert temporary.suffix == ".txt"
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic.replacing(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_with_all_its_files(tmp_path):
    path = tmp_path / "folder"
    with atomic.replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "a").write_text("1")
        assert not path.exists()
    assert (path / "a").read_text() == "1"


def test_an_error_removes_half_a_folder(tmp_path):
    with pytest.raises(ZeroDivisionError), atomic.replacing(tmp_path / "folder") as temporary:
        temporary.mkdir()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_remove_takes_the_name_away_first(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_text("1")
    # As if killed before anything in the folder was deleted.
    monkeypatch.setattr(atomic, "_delete", lambda path: None)
    atomic.remove(folder)
    assert not folder.exists()
    monkeypatch.undo()
    atomic.remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []
