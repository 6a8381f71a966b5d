"""Whole exports: what is in the folder, how equal it is, what is refused."""

from __future__ import annotations

import collections
import hashlib
import json

import numpy as np
import pytest

from export.census import read_census
from export.exporting import ExportOptions, export_run
from export.runtime import ExportedModel
from tests import runs
from tests.export.conftest import finished_run
from tft_keras.errors import InputError
from tft_keras.training import Run


def test_the_int8_file_computes_what_training_saw(exported):
    _, content = exported
    row = content["parity"]["files"]["tflite_int8"]
    assert content["parity"]["split"] == "test" and content["parity"]["windows"] >= 20
    assert row["within_one"] >= 0.99 and row["largest"] <= 4 and row["mean"] <= 0.2
    # Only the runtime's fixed-point rescaling and float32 rounding are left to differ.
    assert row["equal"] > 0.9


def test_the_float_files_are_equal_but_for_rounding(exported):
    files = exported[1]["parity"]["files"]
    assert files["tflite_float32"]["relative"] < 1e-5
    assert files["saved_model"]["relative"] < 1e-5


def test_every_operator_is_within_one_step_of_exact_arithmetic(exported):
    operators = exported[1]["parity"]["operators"]
    assert {"FULLY_CONNECTED", "ADD", "MUL", "SOFTMAX", "ELU", "TANH"} <= set(operators)
    for kind, row in operators.items():
        assert row["largest"] <= 1 and row["different"] < 0.01, kind


def test_every_observed_tensor_has_its_counterpart(exported):
    rows = {row["name"]: row for row in exported[1]["parity"]["tensors"]}
    assert {"selected/values", "lstm_decoder/cell", "head/quantiles"} <= set(rows)
    found = [name for name, row in rows.items() if row["values"]]
    assert len(found) > 0.9 * len(rows)
    # Equal where nothing recurrent has made a step into several.
    assert rows["static_context/selection/hidden"]["different"] == 0
    # The runtime rounds these twice, and so does the model: else one in 300 differs.
    assert rows["attention/scores"]["different"] == rows["attention/attended"]["different"] == 0
    assert max(rows[name]["different"] for name in found) < 0.1


def test_the_census_shows_integers_alone(exported):
    folder, content = exported
    census = read_census(folder / "tflite_int8.tflite")
    assert census.violations() == []
    counts = census.counts()
    assert not set(counts) & {"WHILE", "CUSTOM", "IF"} and census.subgraphs == 1
    # The converter would take these means in int8, write ELU in float, and quantize the LSTM's
    # recurrent kernel by channel.
    assert set(counts["MEAN"]) == {"float32"} and set(counts["ELU"]) == {"int8"}
    constants = [t for op in census.operators for t in op.inputs if t.constant_bytes]
    assert {len(t.scales) for t in constants if t.type == "int8"} == {1}
    assert {tensor.type for tensor in census.inputs} <= {"int8", "int32"}
    assert [tensor.type for tensor in census.outputs] == ["int8"]
    for island in census.float_islands():
        assert sum(operator.kind == "RSQRT" for operator in island) == 1
    assert content["files"]["tflite_int8"]["census"]["violations"] == []
    violations = read_census(folder / "tflite_float32.tflite").violations()
    assert any("float weight" in violation for violation in violations)


def test_the_manifest_tells_what_the_files_are(exported):
    folder, content = exported
    assert json.loads((folder / "manifest.json").read_text()) == content
    for file in content["files"].values():
        for path, digest in file["sha256"].items():
            assert hashlib.sha256((folder / path).read_bytes()).hexdigest() == digest
    rows = {row["name"]: row for row in content["tensors"]}
    assert rows["lstm_encoder/hidden"]["scale"] == pytest.approx(2 / 255)
    assert len(content["input_sizes"]["observed_real"]) == len(
        [name for name in rows if name.startswith("inputs/observed_real/")]
    )
    assert content["quantiles"] == [0.1, 0.5, 0.9]


def test_the_same_window_twice_gives_the_same(exported):
    model = ExportedModel(exported[0])
    windows = runs.prepared().test
    first, other = (windows.gather([position])[0] for position in (0, 9))
    one, _, again = (model.run(inputs) for inputs in (first, other, first))
    np.testing.assert_array_equal(one, again)


def test_after_training_a_float_run_can_be_quantized(float_run, tmp_path):
    """Here with the normalizations in 8 bits, too."""
    options = ExportOptions(
        ("tflite_int8",),
        batch_size=2,
        edges="float32",
        ptq=True,
        integer_layer_norm=True,
        calibration_batches=3,
    )
    content = export_run(float_run, tmp_path / "out", options)
    row = content["parity"]["files"]["tflite_int8"]
    assert row["within_one"] >= 0.99 and row["largest"] <= 4 and row["mean"] <= 0.2
    census = read_census(tmp_path / "out" / "tflite_int8.tflite")
    assert {t.type for t in (*census.inputs, *census.outputs)} == {"float32", "int32"}
    assert census.inputs[0].shape[0] == 2
    # Beside the edges nothing is in float but the reciprocal roots.
    roots = {"DEQUANTIZE": 1, "ADD": 1, "RSQRT": 1, "QUANTIZE": 1}
    islands = [collections.Counter(op.kind for op in each) for each in census.float_islands()]
    assert all(each == roots for each in islands if each["RSQRT"])
    assert {kind for each in islands if not each["RSQRT"] for kind in each} == {
        "DEQUANTIZE",
        "DIV",
        "QUANTIZE",
    }


@pytest.mark.parametrize(
    "options, message",
    [
        ({"formats": ("tflite_int9",)}, "Received: 'tflite_int9'.*tflite_int8"),
        ({"formats": ()}, "Received: none"),
        ({"edges": "int4"}, "edges='int4'"),
        ({"batch_size": -1}, "batch_size must be at least 0"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        ExportOptions(**options)


def test_what_cannot_be_exported_leaves_nothing(float_run, quantized_run, tmp_path):
    output = tmp_path / "out"
    with pytest.raises(InputError, match="needs a quantization-aware run.*--ptq"):
        export_run(float_run, output)
    with pytest.raises(InputError, match="Leave --ptq away"):
        export_run(quantized_run, output, ExportOptions(ptq=True))
    with pytest.raises(InputError, match="Train it on with --use_qat --integer_layer_norm"):
        export_run(quantized_run, output, ExportOptions(integer_layer_norm=True))
    (tmp_path / "raw").mkdir()
    raw = finished_run(tmp_path / "raw", quantized=True, calibrated=False)
    with pytest.raises(InputError, match="never saw data"):
        export_run(raw, output)
    unfinished = Run.create(
        tmp_path / "unfinished", quantized_run.config, quantized_run.preprocessing()
    )
    with pytest.raises(InputError, match="has not finished"):
        export_run(unfinished, output)
    assert not output.exists()


def test_a_folder_in_use_is_left_alone(quantized_run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="which is in use"):
        export_run(quantized_run, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_interruption_leaves_nothing(quantized_run, tmp_path):
    def interrupt(line):
        if line.startswith("running"):
            raise KeyboardInterrupt

    options = ExportOptions(("saved_model",))
    with pytest.raises(KeyboardInterrupt):
        export_run(quantized_run, tmp_path / "out", options, interrupt)
    assert list(tmp_path.iterdir()) == []
