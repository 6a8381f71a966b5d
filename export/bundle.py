"""The runtime as one file that runs without this library: `forecast.pyz`."""

from __future__ import annotations

import io
import os
import pathlib
import zipfile

import export
import tft_keras

_MAIN = """\
import pathlib
import sys

from export.runtime import main

sys.exit(main(folder=str(pathlib.Path(sys.argv[0]).resolve().parent)))
"""
# What `export.runtime` imports, and what that imports: no TensorFlow.
_MODULES = ("__init__", "atomic", "config", "errors", "tiers", "data/*")


def write_bundle(path: str | os.PathLike[str]) -> None:
    """Writes the runtime and the data layer as a Python zip application.

    It needs numpy, pyarrow and ai-edge-litert, and takes the folder that it lies in as its model.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", _MAIN)
        root = pathlib.Path(export.__file__).parent
        for name in ("__init__", "options", "runtime"):
            archive.write(root / f"{name}.py", f"export/{name}.py")
        root = pathlib.Path(tft_keras.__file__).parent
        for pattern in _MODULES:
            for file in sorted(root.glob(f"{pattern}.py")):
                archive.write(file, f"tft_keras/{file.relative_to(root)}")
    pathlib.Path(path).write_bytes(b"#!/usr/bin/env python3\n" + content.getvalue())
