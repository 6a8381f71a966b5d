"""The quantized twin of a model: equality, observers, tiers, saving."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from export.device_model import device_model
from tests.support import CONFIG, TINY, dense_gradients, random_inputs, random_targets, randomize
from tft_keras.errors import InputError
from tft_keras.losses import QuantileLoss
from tft_keras.model import TemporalFusionTransformer
from tft_keras.quantization import (
    calibrate,
    copy_weights,
    observer_mode,
    quantize_model,
    report_table,
)
from tft_keras.quantization.control import observers_of
from tft_keras.quantization.leaves import QuantizedLeaf


def make_float(config=CONFIG):
    keras.utils.set_random_seed(0)
    model = TemporalFusionTransformer(config)
    randomize(model, scale=0.1)
    return model


def batches(config=CONFIG, count=3):
    return [random_inputs(config, windows=16, seed=seed) for seed in range(count)]


@pytest.fixture(scope="module")
def pair():
    """A float model and its calibrated twin; tests leave them as they are."""
    model = make_float()
    twin = quantize_model(model)
    calibrate(twin, batches())
    return model, twin


def test_off_it_is_the_float_model_and_on_it_is_close(pair):
    model, twin = pair
    inputs = random_inputs(CONFIG, windows=16, seed=9)
    with observer_mode(twin, "off"):
        np.testing.assert_allclose(twin(inputs), model(inputs), atol=1e-6)
    error = np.abs(twin(inputs) - model(inputs)).mean()
    # 8 bits through about a hundred roundings
    assert 1e-4 < error < 0.1 * np.abs(model(inputs)).mean()


def test_normalizing_in_8_bits_is_close_too(pair):
    model, plain = pair
    twin = quantize_model(model, integer_layer_norm=True)
    calibrate(twin, batches())
    inputs = random_inputs(CONFIG, windows=16, seed=9)
    with observer_mode(twin, "off"):
        np.testing.assert_allclose(twin(inputs), model(inputs), atol=1e-6)
    error, plain_error = (np.abs(each(inputs) - model(inputs)).mean() for each in (twin, plain))
    assert error < 1.5 * plain_error
    assert len(twin.observer_report()) == len(plain.observer_report()) + 7 * 12


def test_every_leaf_is_wrapped_and_every_weight_has_its_name(pair):
    model, twin = pair
    leaves = [layer for layer in twin._flatten_layers() if isinstance(layer, QuantizedLeaf)]
    plain = {weight.name.split("/", 1)[1] for weight in model.weights}
    names = {weight.name.split("/", 1)[1] for weight in twin.weights}
    assert plain <= names
    assert all("/observers/" in name for name in names - plain)
    owned = {id(weight) for leaf in leaves for weight in leaf.weights}
    assert owned == {id(weight) for weight in twin.trainable_weights}
    assert len(twin.trainable_weights) == len(model.trainable_weights)


def test_frozen_weights_stay_out_of_training(pair):
    twin = pair[1]
    leaf = twin.head.linear
    leaf.trainable = False
    try:
        assert not leaf.trainable_weights and len(leaf.non_trainable_weights) == 2
        assert len(twin.trainable_weights) == len(pair[0].trainable_weights) - 2
    finally:
        leaf.trainable = True


# What may stay in float: reading inputs and weights, statistics of the normalizations, loops.
FLOAT_IN_NORMALIZATION = {"Mean", "Sub", "Square", "SquaredDifference", "Rsqrt", "AddV2", "Mul"}
MOVES = {"Reshape", "Transpose", "Split", "SplitV", "Unpack", "StridedSlice", "Pack", "ConcatV2"}
MOVES |= {"Identity", "GatherV2", "ResourceGather", "Squeeze", "ExpandDims", "Cast"}


# Of each normalization: mean, centred, its square, variance, + epsilon, root, product, and scaled
# by gamma; the last result is observed. In 8 bits: the variance with epsilon; its root is observed.
@pytest.mark.parametrize("integer_layer_norm, unobserved_each", [(False, 8), (True, 1)])
def test_every_float_result_passes_an_observer(integer_layer_norm, unobserved_each):
    """Walks the graph that is exported: whatever computes feeds a fake-quantization, or is listed.

    It differs from the one that is trained in that the variables' networks are tables.
    """
    config = dataclasses.replace(CONFIG, dropout=0.0)
    twin = quantize_model(make_float(config), integer_layer_norm=integer_layer_norm)
    calibrate(twin, batches(config, count=1))
    twin = device_model(twin)
    inputs = {k: tf.TensorSpec(v.shape, v.dtype) for k, v in random_inputs(config, 1).items()}
    function = tf.function(lambda inputs: twin(inputs), autograph=False)
    graph = function.get_concrete_function(inputs).graph
    fed = graph_inputs(graph)
    unobserved = {}
    for operation in graph.get_operations():
        computes = operation.type in {
            "MatMul", "BatchMatMulV2", "Mul", "AddV2", "Sub", "AddN", "Elu", "Sigmoid", "Tanh",
            "Softmax", "Sum", "Mean", "BiasAdd", "Rsqrt", "Square", "SquaredDifference", "Maximum",
        }  # fmt: skip
        if not computes or not operation.outputs[0].dtype.is_floating or operation not in fed:
            continue
        if not reaches_quantization(operation.outputs[0]):
            unobserved.setdefault(operation.type, []).append(operation.name)
    names = [name for found in unobserved.values() for name in found]
    # Sorted quantiles are those that were observed.
    names = [name for name in names if "/head/Maximum" not in name]
    outside = [name for name in names if not in_normalization(graph, name)]
    assert not outside
    assert len(names) == unobserved_each * count_normalizations(twin)


def graph_inputs(graph):
    """Returns the operations that depend on the model's inputs (not on weights alone)."""
    reached, pending = set(), [tensor.op for tensor in graph.inputs if tensor.dtype != tf.resource]
    while pending:
        operation = pending.pop()
        if operation in reached:
            continue
        reached.add(operation)
        pending += [user for tensor in operation.outputs for user in tensor.consumers()]
    return reached


def reaches_quantization(tensor):
    """Whether each use of a tensor, bias and moves aside, is a fake-quantization."""
    for user in tensor.consumers():
        if user.type.startswith("FakeQuant") or user.type == "Round":  # a code of a table
            continue
        if user.type == "Shape":
            continue
        bias = user.type == "AddV2" and tensor.op.type == "MatMul"
        if not (user.type in MOVES or bias or user.type == "AddN"):
            return False
        if not reaches_quantization(user.outputs[0]):
            return False
    return True


def in_normalization(graph, name):
    """Whether an operation lies between a normalization's input and its observed result."""
    operation = graph.get_operation_by_name(name)
    if operation.type not in FLOAT_IN_NORMALIZATION:
        return False
    pending, seen = [operation], set()
    while pending:
        current = pending.pop()
        if current.type == "Rsqrt":
            return True
        neighbours = [user for tensor in current.outputs for user in tensor.consumers()]
        neighbours += [tensor.op for tensor in current.inputs]
        for neighbour in neighbours:
            if neighbour.type in FLOAT_IN_NORMALIZATION and neighbour not in seen:
                seen.add(neighbour)
                pending.append(neighbour)
    return False


def count_normalizations(twin):
    names = [w.name for w in twin.weights if "normalization/gamma" in w.name]
    return sum("/networks/" not in name for name in names)


class Steps:
    """Training steps of a quantized model in one tier: live ones, then frozen ones."""

    def __init__(self, tier, eager, live=20, frozen=5):
        self.model = quantize_model(make_float(TINY))
        calibrate(self.model, batches(TINY, count=2))
        self.model.gradient_checkpointing = tier
        inputs, targets = random_inputs(TINY, windows=8), random_targets(TINY, windows=8)
        loss, optimizer = QuantileLoss(), keras.optimizers.legacy.SGD(0.01)

        def step():
            with tf.GradientTape() as tape:
                value = loss(targets, self.model(inputs, training=True))
            gradients = tape.gradient(value, self.model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
            return value, tf.linalg.global_norm(gradients)

        run = step if eager else tf.function(step)
        results = [run() for _ in range(live)]
        self.report = self.model.observer_report()
        self.model.freeze_observers()
        results += [run() for _ in range(frozen)]
        self.report_after = self.model.observer_report()
        self.results = np.array([[float(number) for number in result] for result in results])

    @property
    def ranges(self):
        return np.array([(row["min"], row["max"]) for row in self.report])


@pytest.fixture(scope="module", params=["eager", "graph"])
def plain_steps(request):
    return Steps("off", request.param == "eager"), request.param == "eager"


def test_tiers_train_alike_with_live_and_with_frozen_observers(plain_steps):
    plain, eager = plain_steps
    for tier in ("aggressive", "full") if eager else ("full",):
        steps = Steps(tier, eager)
        for found in (plain, steps):
            samples = {row["samples"] for row in found.report if row["state"] != "fixed"}
            assert samples == {2 + 20}  # two batches of calibration, then once per step
            ranges = [
                [(row["min"], row["max"]) for row in r] for r in (found.report, found.report_after)
            ]
            assert ranges[0] == ranges[1]
        # A value on the other side of a rounding step moves a loss by more than float32 does.
        np.testing.assert_allclose(steps.results, plain.results, rtol=2e-3)
        width = plain.ranges[:, 1] - plain.ranges[:, 0]
        off = np.abs(steps.ranges - plain.ranges).max(axis=1) / width
        assert np.mean(off > 1e-5) < 0.05, f"{np.sum(off > 1e-5)} of {len(off)} ranges differ"
        assert off.max() < 1e-2


def test_frozen_observers_stay_bit_identical_while_weights_move():
    model = quantize_model(make_float(TINY))
    inputs, targets = random_inputs(TINY, windows=8), random_targets(TINY, windows=8)
    calibrate(model, [inputs])
    model.compile(keras.optimizers.legacy.Adam(0.01), QuantileLoss(), run_eagerly=True)
    model.fit(inputs, targets, verbose=0)
    live = model.observer_report()
    model.freeze_observers()
    frozen, weights = model.observer_report(), [w.numpy() for w in model.trainable_weights]
    assert [row["min"] for row in live] == [row["min"] for row in frozen]
    model.fit(inputs, targets, epochs=2, verbose=0)
    assert model.observer_report() == frozen and model.observers_frozen
    assert all(
        np.abs(w - b).max() > 0 for w, b in zip(model.trainable_weights, weights, strict=True)
    )
    model.unfreeze_observers()
    model.fit(inputs, targets, verbose=0)
    assert model.observer_report() != frozen and not model.observers_frozen


def test_saved_and_loaded_it_predicts_the_same(pair, tmp_path):
    twin, inputs = pair[1], random_inputs(CONFIG, windows=4, seed=5)
    before = twin(inputs).numpy()
    twin.freeze_observers()
    twin.save(tmp_path / "twin.keras")
    twin.save_weights(tmp_path / "twin.weights.h5")
    twin.unfreeze_observers()
    loaded = keras.models.load_model(tmp_path / "twin.keras")
    again = TemporalFusionTransformer(CONFIG, quantized=True)
    again.load_weights(tmp_path / "twin.weights.h5")
    for other in (loaded, again):
        np.testing.assert_array_equal(other(inputs), before)
        assert other.observers_frozen


def test_report_names_ranges_and_states(pair):
    twin = pair[1]
    rows = {row["name"]: row for row in twin.observer_report()}
    assert rows["lstm_encoder/hidden"]["state"] == "fixed"
    assert rows["lstm_encoder/write_gate"]["scale"] == 1 / 256
    size = np.abs(next(iter(batches(count=1)))["observed_real"][..., 1]).max()
    first = rows["inputs/observed_real/1"]
    assert first["samples"] == 3 and first["state"] == "live"
    # the first batch's size, then two small steps of a moving average; codes of -112 to 112
    assert first["scale"] * 112 == pytest.approx(size, rel=0.05) and first["zero_point"] == 0
    table = report_table(twin.observer_report()).splitlines()
    assert table[0].split() == [
        "observer",
        "min",
        "max",
        "scale",
        "zero",
        "point",
        "samples",
        "state",
    ]
    assert len(table) == 1 + len(rows) and len({line.rstrip().rfind("  ") for line in table}) <= 3


def test_percentile_and_decay_reach_the_observers():
    twin = quantize_model(make_float(TINY), decay=0.5, percentile=99.0)
    quantizer = observers_of(twin)["inputs"].quantizer
    assert (quantizer.decay, quantizer.percentile) == (0.5, 99.0)
    again = TemporalFusionTransformer.from_config(twin.get_config())
    assert observers_of(again)["inputs"].quantizer == quantizer
    calibrate(twin, batches(TINY, count=1))
    for frozen in (False, True):
        if frozen:
            twin.freeze_observers()
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(twin(random_inputs(TINY, windows=4), training=True))
        gradients = dense_gradients(tape.gradient(loss, twin.trainable_weights))
        assert all(np.isfinite(gradient).all() for gradient in gradients)
        samples = {row["samples"] for row in twin.observer_report() if row["state"] != "fixed"}
        assert samples == {2}  # the calibration and the live step


def test_what_cannot_be_done_is_said():
    model = make_float(TINY)
    twin = quantize_model(model)
    with pytest.raises(InputError, match="after they have seen data.*inputs/static_real/0.* more"):
        twin.freeze_observers()
    with pytest.raises(InputError, match=r"calibrate\(model, batches\) first"):
        twin(random_inputs(TINY, windows=1))
    with pytest.raises(InputError, match="at least one batch"):
        calibrate(twin, [])
    with pytest.raises(InputError, match="quantized already"):
        quantize_model(twin)
    with pytest.raises(InputError, match=r"quantize_model\(model\)"):
        model.freeze_observers()
    other = TemporalFusionTransformer(dataclasses.replace(TINY, hidden_size=4))
    with pytest.raises(InputError, match=r"head/linear/kernel|observed_embedding.* against"):
        copy_weights(other, twin)


def test_replicas_keep_one_range(strategy):
    """Two replicas see the smallest and largest value of the whole batch, as one device does."""
    from tft_keras.layers.shared_range import SharedRange

    def make():
        layer = SharedRange(quantized=True)
        layer.build(None)
        with_data = tf.constant([-1.0, 1.0])
        layer.observers.mode = "calibrate"
        layer(with_data)
        layer.observers.mode = "quantize"
        return layer

    batch = tf.constant([[-3.0, 0.5], [0.1, 8.0]])
    plain = make()
    plain(batch, training=True)
    with strategy.scope():
        shared = make()

    @tf.function
    def step(rows):
        return strategy.run(lambda row: shared(row, training=True), args=(rows,))

    step(
        strategy.experimental_distribute_values_from_function(
            lambda context: batch[context.replica_id_in_sync_group][tf.newaxis]
        )
    )
    for key in ("min_var", "max_var"):
        expected = plain.observers.state[key].numpy()
        for value in strategy.experimental_local_results(shared.observers.state[key]):
            np.testing.assert_array_equal(value, expected)
