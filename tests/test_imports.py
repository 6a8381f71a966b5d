"""The order of the rooms: a module imports only from those before it."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# Earlier ones know nothing of later ones.
ROOMS = (
    "tft_keras.errors",
    "tft_keras.atomic",
    "tft_keras.apart",
    "tft_keras.tiers",
    "tft_keras.process_memory",
    "tft_keras.config",
    "tft_keras.step_memory",
    "tft_keras.recompute",
    "tft_keras.quantization",
    "tft_keras.layers",
    "tft_keras.model",
    "tft_keras.losses",
    "tft_keras.metrics",
    "tft_keras.data",
    "tft_keras.training",
    "tft_keras.retry",
    "tft_keras.forecast",
    "tft_keras.evaluation",
    "tft_keras.interpretation",
    "tools.flags",
    "tools.command",
    "export",
    "tools",
)
FILES = sorted(
    path for room in ("tft_keras", "export", "tools") for path in (ROOT / room).rglob("*.py")
)


def room_of(module: str) -> int | None:
    for place, room in enumerate(ROOMS):
        if module == room or module.startswith(room + "."):
            return place
    return None


def imports(path: pathlib.Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    here = room_of(module)
    assert here is not None or module == "tft_keras", f"{module} has no place in ROOMS"
    for name in imports(path):
        there = room_of(name)
        if here is not None and there is not None:
            assert there <= here, f"{module} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_tf_keras_is_used(path):
    assert "tf.keras." not in path.read_text()


def test_data_layer_needs_no_tensorflow():
    code = "import sys, tft_keras.data; sys.exit(bool({'tensorflow', 'pandas'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
