"""What stands beside exported files: everything that a device needs to know of them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import pathlib
import subprocess
from typing import Any

import tft_keras
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training import Run

_PACKAGES = ("tensorflow", "tf-keras", "tensorflow-model-optimization", "ai-edge-litert")


def manifest(
    run: Run,
    model: TemporalFusionTransformer,
    files: dict[str, dict[str, Any]],
    report: dict[str, Any],
) -> dict[str, Any]:
    """Returns an exported folder's manifest as plain JSON values.

    Args:
        run: that was exported.
        model: what was exported, quantized if an int8 file is among the files.
        files: of each format its path and what is known of it.
        report: of the verification, empty without one.
    """
    preprocessing = run.preprocessing()
    content: dict[str, Any] = {
        "format": 1,
        "versions": {"tft-keras": tft_keras.__version__}
        | {name: importlib.metadata.version(name) for name in _PACKAGES},
        "git_commit": git_commit(),
        "run": run.path.name,
        "training": run.config.training.to_dict(),
        "model": run.config.model.to_dict(),
        "quantiles": list(run.config.model.quantiles),
        "preprocessing": preprocessing.to_dict(),
        "reach": preprocessing.reach,
        "files": files,
        "input_sizes": {},
        "tensors": [],
        "parity": report,
    }
    if model.quantized:
        content["tensors"] = model.observer_report()
        content["input_sizes"] = input_sizes(model)
    return content


def input_sizes(model: TemporalFusionTransformer) -> dict[str, list[float]]:
    """Returns by which each real variable is divided before it becomes an int8 input."""
    if not model.quantized or not model.quantized_inputs.sizes:
        return {}
    sizes = model.quantized_inputs.known_sizes()
    return {name: [float(size) for size in values.numpy()] for name, values in sizes.items()}


def file_entry(folder: pathlib.Path, path: str) -> dict[str, Any]:
    """Returns path, size and hashes of an exported file or folder.

    Args:
        folder: that holds everything exported.
        path: below it.
    """
    place = folder / path
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
    hashes = {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }
    size = sum(file.stat().st_size for file in files)
    return {"path": path, "bytes": size, "sha256": hashes}


def git_commit() -> str | None:
    """Returns the commit that the library is checked out at, if it is in a git repository."""
    root = pathlib.Path(tft_keras.__file__).parent
    try:
        # The library may be installed below a repository of something else.
        command = ["git", "-C", str(root), "log", "-1", "--format=%H", "--", str(root)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None
