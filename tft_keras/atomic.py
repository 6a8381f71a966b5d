"""Writing so that a reader, or a process that dies, neither leaves nor meets half a file."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

_PREFIX = ".part-"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a temporary path beside `path`; what is written there takes its place at the end.

    The content is on the disk before it gets its name. If the body raises, what it wrote is removed
    and `path` stays as it was.

    Args:
        path: the file or folder to write. A folder must not exist yet.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
        _sync(path.parent)
    except BaseException:
        _delete(temporary)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file in UTF-8, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove(path: pathlib.Path) -> None:
    """Removes a file or folder so that its name never stands for half of it."""
    temporary = _temporary(path)
    path.replace(temporary)
    _delete(temporary)


def remove_leftovers(folder: pathlib.Path) -> None:
    """Removes what a process that was killed while writing left in `folder`."""
    for leftover in folder.glob(f"{_PREFIX}*"):
        _delete(leftover)


def _temporary(path: pathlib.Path) -> pathlib.Path:
    # The name stays at the end, since some writers choose the format by its suffix.
    return path.with_name(f"{_PREFIX}{os.getpid()}-{path.name}")


def _flush(path: pathlib.Path) -> None:
    if path.is_dir():
        for entry in path.iterdir():
            _flush(entry)
    _sync(path)


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _delete(path: pathlib.Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
