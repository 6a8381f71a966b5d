"""Recompute: the plain call's values, gradients and side effects, wherever it is used."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.support import TINY, dense_gradients, random_inputs, random_targets, randomize
from tft_keras.layers.dropout import dropout
from tft_keras.losses import QuantileLoss
from tft_keras.model import TemporalFusionTransformer
from tft_keras.recompute import is_recomputing, once, recompute
from tft_keras.tiers import BLOCKS, TIERS

MODES = {
    "eager": lambda function: function,
    "graph": tf.function,
    "jit": lambda function: tf.function(function, jit_compile=True),
}


class Body:
    """A layer with what a naive replay gets wrong: dropout, a moving average, a count."""

    def __init__(self, size=8):
        generator = np.random.default_rng(0)
        self.kernel = tf.Variable(generator.normal(size=(size, size)).astype(np.float32) * 0.5)
        self.average = tf.Variable(1.0, trainable=False)
        self.calls = tf.Variable(0, trainable=False)

    def __call__(self, inputs, kernel=None):
        hidden = tf.nn.elu(tf.matmul(inputs, self.kernel if kernel is None else kernel))
        limit = once(lambda: self.observe(hidden))
        hidden = tf.clip_by_value(hidden, -limit, limit)
        return dropout(hidden, 0.5, once(self.seed))

    def observe(self, hidden):
        self.calls.assign_add(1)
        moved = 0.9 * self.average + 0.1 * tf.reduce_max(tf.abs(hidden))
        self.average.assign(moved)
        return tf.identity(moved)

    def seed(self):
        return tf.stack([7, tf.identity(self.calls)])


INPUTS = tf.constant(np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32))


def train(call, mode, steps=3):
    """Returns losses, gradients and the body's state over some steps of three calls each."""
    body = Body()

    def step():
        with tf.GradientTape() as tape:
            value = INPUTS
            for _ in range(3):
                value = call(body, value)
            loss = tf.reduce_mean(value**2)
        return loss, tape.gradient(loss, body.kernel)

    run = MODES[mode](step)
    results = []
    for _ in range(steps):
        loss, gradient = run()
        results.append((loss.numpy(), gradient.numpy()))
        body.kernel.assign_sub(0.1 * gradient)
    return results, body.average.numpy(), body.calls.numpy()


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_gradients_and_side_effects_are_those_of_the_plain_call(mode):
    plain = train(lambda body, value: body(value), mode)
    again = train(lambda body, value: recompute(body, value), mode)
    assert again[2] == plain[2] == 9
    np.testing.assert_allclose(again[1], plain[1], rtol=1e-5)
    for (loss, gradient), (loss_again, gradient_again) in zip(plain[0], again[0], strict=True):
        # the kernel's three gradients are summed in another order
        np.testing.assert_allclose(loss_again, loss, rtol=1e-5)
        assert distance([gradient], [gradient_again]) < 1e-5


def test_nested_bodies_act_once():
    def nested(body, value):
        return recompute(lambda inner: recompute(body, recompute(body, inner)), value)

    plain = train(lambda body, value: body(body(value)), "graph")
    again = train(nested, "graph")
    assert again[2] == plain[2] == 18
    np.testing.assert_allclose(again[1], plain[1], rtol=1e-5)
    for (loss, gradient), (loss_again, gradient_again) in zip(plain[0], again[0], strict=True):
        np.testing.assert_allclose(loss_again, loss, rtol=1e-5)
        assert distance([gradient], [gradient_again]) < 1e-5


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_inside_a_while_loop(mode):
    def loop(call):
        body = Body()

        def step():
            with tf.GradientTape() as tape:
                kernel = tf.identity(body.kernel)

                def turn(count, value):
                    return count + 1, call(body, value, kernel)

                _, value = tf.while_loop(
                    lambda count, _: count < 4,
                    turn,
                    (0, INPUTS),
                    parallel_iterations=1,
                    maximum_iterations=4,
                )
                loss = tf.reduce_mean(value**2)
            return loss, tape.gradient(loss, body.kernel)

        run = MODES[mode](step)
        return [run() for _ in range(2)], body.average.numpy(), body.calls.numpy()

    plain = loop(lambda body, *tensors: body(*tensors))
    again = loop(lambda body, *tensors: recompute(body, *tensors))
    assert again[1:] == plain[1:] and plain[2] == 8
    for one, two in zip(tf.nest.flatten(plain[0]), tf.nest.flatten(again[0]), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)


def test_a_replay_is_recognized():
    seen = []

    def body(value):
        seen.append(is_recomputing())
        return value**2

    value = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(value)
        result = recompute(body, value)
    assert tape.gradient(result, value) == 6
    assert seen == [False, True] and not is_recomputing()


@pytest.mark.parametrize("mode", MODES)
def test_any_argument_and_result(mode):
    """Booleans, integers, `None`, structures and unused arguments go in, structures come out."""
    kernel = tf.Variable(2.0)

    def body(values, mask, nothing, scale, unused):
        chosen = tf.where(mask, values["a"] * kernel, values["b"])
        return {"chosen": chosen * scale, "none": nothing, "count": tf.reduce_sum(values["n"])}

    def step(values, mask):
        with tf.GradientTape() as tape:
            tape.watch(values)
            found = recompute(body, values, mask, None, 3.0, tf.constant([1.0]))
            loss = tf.reduce_sum(found["chosen"])
        gradients = tape.gradient(loss, [values["a"], values["b"], kernel])
        return found["count"], gradients, found["none"] is None

    values = {"a": tf.constant([1.0, 2.0]), "b": tf.constant([5.0, 6.0]), "n": tf.constant([1, 2])}
    count, gradients, none = MODES[mode](step)(values, tf.constant([True, False]))
    assert count == 3 and none
    np.testing.assert_array_equal(gradients[0], [6, 0])
    np.testing.assert_array_equal(gradients[1], [0, 3])
    assert gradients[2] == 3


def test_a_failing_body_leaves_no_trace():
    def body(value):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        recompute(body, tf.constant(1.0))
    assert once(lambda: 5) == 5 and not is_recomputing()


class Steps:
    """Training steps of a model in one tier, with the losses and gradients of each."""

    def __init__(self, tier, eager, config=TINY, count=20):
        keras.utils.set_random_seed(0)
        model = TemporalFusionTransformer(
            config, gradient_checkpointing=tier, selection_group_size=2
        )
        randomize(model, scale=0.1)
        self.before = [weight.numpy() for weight in model.trainable_weights]
        inputs, targets = random_inputs(config, windows=4), random_targets(config, windows=4)
        loss, optimizer = QuantileLoss(), keras.optimizers.legacy.SGD(0.01)

        def step():
            with tf.GradientTape() as tape:
                value = loss(targets, model(inputs, training=True))
            gradients = tape.gradient(value, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return value, gradients

        run = step if eager else tf.function(step)
        results = [run() for _ in range(count)]
        self.losses = np.array([value.numpy() for value, _ in results])
        self.gradients = [dense_gradients(gradients) for _, gradients in results]
        self.model = model

    def relative_difference(self, other):
        """Returns the largest distance between the gradients of a step, relative to their norm."""
        return max(
            distance(mine, its) for mine, its in zip(self.gradients, other.gradients, strict=True)
        )


def distance(ours, others):
    """Returns the norm of the difference of two lists of arrays over the norm of the first."""
    ours, others = (np.concatenate([np.ravel(a) for a in arrays]) for arrays in (ours, others))
    return np.linalg.norm(ours - others) / np.linalg.norm(ours)


@pytest.fixture(scope="module", params=["eager", "graph"])
def plain_steps(request):
    return Steps("off", request.param == "eager"), request.param == "eager"


@pytest.mark.parametrize("tier", ["aggressive", "full"])
def test_a_tier_trains_like_off(plain_steps, tier):
    plain, eager = plain_steps
    steps = Steps(tier, eager)
    if eager:
        # the first loss is one forward pass: not a bit differs
        assert steps.losses[0] == plain.losses[0]
    # Several uses of a weight within a block are summed before those outside: another order.
    np.testing.assert_allclose(steps.losses, plain.losses, rtol=1e-5)
    assert plain.relative_difference(steps) < 1e-5
    assert distance(plain.model.get_weights(), steps.model.get_weights()) < 1e-5
    for weight, before in zip(steps.model.trainable_weights, steps.before, strict=True):
        assert np.abs(weight - before).max() > 0, f"{weight.name} has not moved"


def test_the_check_can_fail_with_plain_recompute_and_dropout():
    """`tf.recompute_grad` around an ordinary Dropout fails what `recompute` passes."""
    kernel = tf.Variable(tf.ones((64, 64)) / 64)
    layer = keras.layers.Dropout(0.5)
    inputs = tf.ones((8, 64))

    def body(value):
        return layer(tf.matmul(value, kernel), training=True)

    keras.utils.set_random_seed(0)
    with tf.GradientTape() as tape:
        outputs = tf.recompute_grad(body)(inputs)
        loss = tf.reduce_sum(outputs)
    # With the forward pass' mask the gradient is the column sum of what was kept, doubled.
    expected = 2.0 * tf.reduce_sum(tf.cast(outputs > 0, tf.float32), axis=0)
    difference = tf.abs(tape.gradient(loss, kernel) - expected)
    assert tf.reduce_max(difference) > 1

    def seeded(value):
        return dropout(tf.matmul(value, kernel), 0.5, once(lambda: tf.constant([1, 2])))

    with tf.GradientTape() as tape:
        outputs = recompute(seeded, inputs)
        loss = tf.reduce_sum(outputs)
    expected = 2.0 * tf.reduce_sum(tf.cast(outputs > 0, tf.float32), axis=0)
    np.testing.assert_allclose(tape.gradient(loss, kernel), tf.tile(expected[None], (64, 1)))


def test_tiers_are_changed_on_a_built_model(inputs, config):
    model = TemporalFusionTransformer(config)
    before, weights = model(inputs).numpy(), model.get_weights()
    for tier in (*TIERS, BLOCKS[2:4], ("variable_selection",)):
        model.gradient_checkpointing = tier
        assert model.gradient_checkpointing == tier
        np.testing.assert_allclose(model(inputs), before, atol=1e-6)
    for one, two in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("block", BLOCKS)
def test_each_block_is_replayed_when_chosen(block, inputs, config, monkeypatch):
    """The body of a chosen block runs twice, and the others once."""
    import tft_keras.layers.sequential as sequential
    import tft_keras.layers.variable_selection as variable_selection
    import tft_keras.model as model_module

    calls = []

    def counting(body, *arguments, when):
        calls.extend([body] if when else [])
        return recompute(body, *arguments, when=when)

    for module in (model_module, sequential, variable_selection):
        monkeypatch.setattr(module, "recompute", counting)
    model = TemporalFusionTransformer(config, gradient_checkpointing=(block,))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs, training=True) ** 2)
    assert calls
    assert all(gradient is not None for gradient in tape.gradient(loss, model.trainable_variables))


def test_a_changed_tier_reaches_fit():
    model = TemporalFusionTransformer(TINY)
    model.compile("sgd", QuantileLoss())
    model.fit(random_inputs(TINY, 4), random_targets(TINY, 4), verbose=0)
    assert model.train_function is not None
    model.gradient_checkpointing = "full"
    assert model.train_function is None
