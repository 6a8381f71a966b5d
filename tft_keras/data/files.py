"""Where a table's Parquet files are: on this machine, or anywhere that fsspec reaches."""

from __future__ import annotations

import dataclasses
import glob
import pathlib
import re
from typing import Any

import pyarrow.fs as pafs

from tft_keras.errors import InputError, nearest

_RULE = "The table must be a Parquet file, a folder of them or a glob that matches some."


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of a table, in natural order (`part-2` before `part-10`).

    Attributes:
        paths: for `system`.
        below_root: the same from the folder on that was named, with `/`.
        system: that reads them.
        fingerprint: JSON value that changes when the files do; None where nothing tells.
    """

    paths: list[str]
    below_root: list[str]
    system: pafs.FileSystem
    fingerprint: list[Any] | None


def find_files(source: str) -> Files:
    """Finds the files that a path, folder, glob or address names.

    Hidden files and folders (names that begin with `.` or `_`) in a folder are left out.

    Raises:
        InputError: there is none, or the address cannot be reached.
    """
    if "://" in source and not source.startswith("file://"):
        return _find_remote(source)
    return _find_local(source.removeprefix("file://"))


def is_address(source: str) -> bool:
    """Whether a source is an address such as `s3://bucket/table`, not a path on this machine."""
    return "://" in source


def _find_local(source: str) -> Files:
    path = pathlib.Path(source).expanduser()
    if path.is_file():
        found, root = [path], path.parent
    elif path.is_dir():
        found, root = [p for p in path.rglob("*.parquet") if p.is_file()], path
        found = [p for p in found if _is_visible(p.relative_to(path).as_posix())]
    else:
        # Path.glob refuses absolute patterns.
        names = glob.glob(str(path), recursive=True)  # noqa: PTH207
        found, root = [p for p in map(pathlib.Path, names) if p.is_file()], _fixed_part(path)
    if not found:
        raise InputError(f"{_RULE} Received: {source}.{_neighbours(path)}")
    found.sort(key=lambda p: _natural(str(p)))
    fingerprint = []
    for file in found:
        status = file.stat()
        fingerprint.append([str(file.resolve()), status.st_size, status.st_mtime_ns])
    below = [file.relative_to(root).as_posix() for file in found]
    return Files([str(file) for file in found], below, pafs.LocalFileSystem(), fingerprint)


def _find_remote(source: str) -> Files:
    try:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(source)
    except ImportError as error:
        raise InputError(
            f"Reading {source.partition('://')[0]}:// needs a package that is not there. "
            f"Received: {source} ({error}). Install it with `pip install 'tft-keras[remote]'`, or "
            "fsspec's package for that kind of address."
        ) from None
    except ValueError as error:
        raise InputError(f"{_RULE} Received: {source} ({error}).") from None
    try:
        found, root = _remote_files(system, path)
        fingerprint = [[source, *_state(system.info(file))] for file in found]
    # A file system raises what its service's library raises: there is no common class.
    except Exception as error:
        raise InputError(
            f"The table's address must be one that can be read. Received: {source} ({error}). "
            "Check the address and the credentials."
        ) from error
    if not found:
        raise InputError(f"{_RULE} Received: {source}.")
    known = all(state[-1] is not None for state in fingerprint)
    below = [file[len(root) :].lstrip("/") for file in found]
    reader = pafs.PyFileSystem(pafs.FSSpecHandler(system))
    return Files(found, below, reader, fingerprint if known else None)


def _remote_files(system: Any, path: str) -> tuple[list[str], str]:
    if system.isfile(path):
        return [path], path.rpartition("/")[0]
    if system.isdir(path):
        found = [file for file in system.find(path) if file.endswith(".parquet")]
        found = [file for file in found if _is_visible(file[len(path) :].lstrip("/"))]
        return sorted(found, key=_natural), path
    return sorted(system.glob(path), key=_natural), path.partition("*")[0].rpartition("/")[0]


def _state(info: dict[str, Any]) -> tuple[Any, ...]:
    """Returns a file's name, size and what tells whether it has changed, None if nothing does."""
    kinds = ("ETag", "etag", "mtime", "LastModified", "last_modified", "created")
    changed = next((info[kind] for kind in kinds if info.get(kind) is not None), None)
    return info["name"], info["size"], None if changed is None else str(changed)


def _fixed_part(pattern: pathlib.Path) -> pathlib.Path:
    """Returns the folder above the first part of a glob that has a wildcard."""
    for place, part in enumerate(pattern.parts):
        if any(sign in part for sign in "*?["):
            return pathlib.Path(*pattern.parts[:place])
    return pattern.parent


def _is_visible(below: str) -> bool:
    return not any(part.startswith((".", "_")) for part in below.split("/"))


def _neighbours(path: pathlib.Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f" There is no folder {path.parent}."
    return nearest(path.name, names)


def _natural(path: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path)
    ]
