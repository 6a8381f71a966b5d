"""The order of the rooms: a module imports only from those before it."""

import ast
import graphlib
import pathlib
import re
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
    "tft_keras.commands",
    "export",
    "tools",
)
# The way of a table to its batches: each file imports from those before it only.
DATA = (
    *("columns", "calendar", "rows", "scaling", "segments", "local_scaling", "derived"),
    *("calibration", "preprocessing", "fitting", "encoding", "store", "windows"),
    *("prepare", "future"),
)
FILES = sorted(
    path for room in ("tft_keras", "export", "tools") for path in (ROOT / room).rglob("*.py")
)


def room_of(module: str) -> int | None:
    for place, room in enumerate(ROOMS):
        if module == room or module.startswith(room + "."):
            return place
    return None


def module_of(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in FILES}


def imports(path: pathlib.Path):
    """Every module imported anywhere in a file: at the top, in a function, or for types only."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files_imported(module: str) -> set[str]:
    """The project's files that a file imports; of `from package import file`, the file alone."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} has a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return (found & MODULES.keys()) - {module}


def test_no_circle_of_files():
    """Lazy and type-only imports count, within a room and between rooms."""
    graph = {module: files_imported(module) for module in MODULES}
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def test_a_tables_way_to_batches_goes_one_way():
    order = [f"tft_keras.data.{name}" for name in DATA]
    for place, module in enumerate(order):
        later = files_imported(module) & set(order[place:])
        assert not later, f"{module} imports {', '.join(later)}"


def test_files_are_short():
    long = {m: n for m, p in MODULES.items() if (n := len(p.read_text().splitlines())) > 400}
    assert not long


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    module = module_of(path)
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_names_of_the_models_inputs_are_made_in_one_place(path):
    if path != MODULES["tft_keras.config"]:
        text = path.read_text()
        assert not re.search(r"\}_(real|categorical)|endswith\([\"']_(real|categorical)", text)
