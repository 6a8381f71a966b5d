"""Variable selection: which inputs matter at each step, and their weighted sum."""

from __future__ import annotations

import functools

import tensorflow as tf

from tft_keras.layers.base import TFTLayer
from tft_keras.layers.compiled import compiles_on_processor
from tft_keras.layers.dropout import derive_seed
from tft_keras.layers.fused_quantized import QuantizedSumming
from tft_keras.layers.fused_residual import Line, activate, weighted_residual
from tft_keras.layers.gated_residual_network import (
    GatedResidualNetwork,
    ResidualWeights,
    gated_residual,
    gated_residual_observations,
)
from tft_keras.layers.input_embedding import Embedded
from tft_keras.layers.leaf import dense
from tft_keras.layers.sequential import Groups, even_size
from tft_keras.quantization.observers import PlainObserver
from tft_keras.quantization.quantizers import SOFTMAX
from tft_keras.recompute import recompute


class VariableSelection(TFTLayer):
    """Weighs the variables of one role and adds them up (paper, section 4.2, equations 6 to 8).

    1. A GRN on all embedded variables side by side, with the static context, gives after a softmax
       one weight per variable (equation 6).
    2. Every variable passes a GRN of its own (equation 7).
    3. The results are summed by weight (equation 8).

    The embedding of a real variable is linear in one number x: (x k + b) W = x (k W) + b W. The
    first layers of both GRNs and the skip connection therefore take x itself and a folded kernel,
    which is exact and spares the products with (variables * units)-wide rows. Embedded categorical
    variables go through the same layers unfolded.

    Args:
        units: the model's hidden size.
        real: number of real variables.
        categorical: number of categorical variables.
        context_units: size of the static context; 0 for none.
        dropout: of the GRNs.
        group_size: variables that the GRNs of step 2 process at once, in sequence; `None` for all.
        recompute_weighing: whether step 1 is recomputed in the backward pass.
        recompute_groups: whether each group of step 2 is.

    Call arguments:
        embedded: `Embedded` of (real, rows) and (categorical, rows, units).
        context: (batch, context_units) or `None`; rows are batch * steps, batch first.
        seed: (2,) dropout seed, or `None` for inference.
        training: whether live observers move.

    Outputs:
        selected: (rows, units); the caller observes it, together with what it is joined to.
        weights: (rows, variables), real variables first; each row sums to 1.

    Attributes:
        tables: `NetworkTables` to look the results of step 2 up in, or `None` to compute them.
        input_steps: tell the steps of the grids of real and of categorical variables, where they
            are quantized.
    """

    def __init__(
        self,
        units: int,
        real: int = 0,
        categorical: int = 0,
        context_units: int = 0,
        dropout: float = 0.0,
        group_size: int | None = None,
        recompute_weighing: bool = False,
        recompute_groups: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if units < 2:
            raise ValueError(f"units must be at least 2. Received: units={units}.")
        self.units = units
        self.real = real
        self.categorical = categorical
        self.context_units = context_units
        self.dropout = dropout
        self.group_size = group_size
        self.recompute_weighing = recompute_weighing
        self.recompute_groups = recompute_groups
        self.tables = None
        self.input_steps = {}

    @property
    def variables_count(self) -> int:
        return self.real + self.categorical

    def observations(self):
        both = ("_real", "_categorical") if self.real and self.categorical else ()
        weighing = dict.fromkeys(
            [name + kind for name in ("hidden", "skip") for kind in ("", *both)]
            + (["context", "hidden_in_context"] if self.context_units else [])
        )
        weighing |= gated_residual_observations(integer_layer_norm=self.integer_layer_norm)
        weighing |= {"weights": SOFTMAX}
        return (
            {f"weighing/{name}": given for name, given in weighing.items()}
            | {"networks/normalized": None}
            | ({"networks/weighted": None} if self.variables_count > 1 else {})
            | {f"sum{kind}": None for kind in both}
        )

    def build(self, input_shape=None):
        variables, units = self.variables_count, self.units
        shared = {"dropout": self.dropout, "folded": True} | self.quantization
        self.weighing = GatedResidualNetwork(
            units, variables, self.context_units, name="weighing", **shared
        )
        self.add_layer(self.weighing, (None, variables * units))
        self.networks = GatedResidualNetwork(units, stack=variables, name="networks", **shared)
        self.add_layer(self.networks, (variables, None, units))
        super().build(input_shape)

    def call(self, embedded, context=None, seed=None, training=None):
        embedded = Embedded(*embedded)
        with self.observing(training) as observe:

            def weigh(embedded, context, seed):
                return self.weigh(embedded, context, seed, training, observe.under("weighing"))

            weights = recompute(
                weigh, embedded, context, derive_seed(seed, 0), when=self.recompute_weighing
            )
            selected = self.select(embedded, tf.transpose(weights), seed, training, observe)
            if len(selected) == 2:
                selected = {name: observe(name, total) for name, total in selected.items()}
            return functools.reduce(tf.add, selected.values()), weights

    def select(self, embedded, weights, seed, training, observe):
        """Returns the weighted sums of the real and of the categorical variables' networks.

        Args:
            weights: (variables, rows).
        """
        observe, selected = observe.under("networks"), {}
        shares = {"real": weights[: self.real], "categorical": weights[self.real :]}
        if self.tables is not None:
            for kind, outputs in self.tables.look_up(embedded).items():
                outputs = observe("normalized", outputs)
                selected[f"sum_{kind}"] = self.sum_weighted(outputs, shares[kind], observe)
            return selected
        if self.real:
            parts = self.real_parts(embedded, shares["real"], training)
            selected["sum_real"] = self.sum_real(parts, derive_seed(seed, 1), observe)
        if self.categorical:
            parts = self.vector_parts(embedded, shares["categorical"], training)
            selected["sum_categorical"] = self.sum_vectors(parts, derive_seed(seed, 2), observe)
        return selected

    def network_outputs(self, embedded):
        """Returns what step 2 makes of some variables, observed: (variables, rows, units)."""
        embedded, outputs = Embedded(*embedded), []
        with self.observing(False) as observe:
            if self.real:
                values, _, first, skip, residual = self.real_parts(embedded, None, False)
                outputs.append((expand(values, first), expand(values, skip), residual))
            if self.categorical:
                vectors, _, first, residual = self.vector_parts(embedded, None, False)
                hidden = dense(vectors, first, PlainObserver(), "hidden")
                outputs.append((hidden, vectors, residual))
            results = [gated_residual(*each, 0.0, None, PlainObserver()) for each in outputs]
            return observe("networks/normalized", tf.concat(results, axis=0))

    def weigh(self, embedded, context, seed, training, observe):
        """Returns the selection weights (rows, variables)."""
        hidden = self.flat_product(embedded, self.weighing.hidden, training, observe, "hidden")
        if context is not None:
            rows = tf.shape(hidden)
            hidden = tf.reshape(hidden, (tf.shape(context)[0], -1, self.units))
            context = context[:, tf.newaxis, :]
            hidden = self.weighing.add_context(hidden, context, training, observe)
            hidden = tf.reshape(hidden, rows)
        skip = self.flat_product(embedded, self.weighing.skip, training, observe, "skip")
        weights = self.weighing.residual_weights(training)
        scores = gated_residual(hidden, skip, weights, self.dropout, seed, observe)
        return observe("weights", tf.nn.softmax(scores, axis=-1))

    def flat_product(self, embedded, leaf, training, observe, name):
        """Multiplies the variables' vectors side by side (rows, variables * units) by a kernel."""
        kernel, bias = leaf.values(training)
        kernel = tf.reshape(kernel, (self.variables_count, self.units, kernel.shape[-1]))
        rows, kernels = {}, {}
        if self.real:
            kernels["real"], offset = fold(embedded, kernel[: self.real])
            bias = bias + tf.reduce_sum(offset, axis=0)
            rows["real"] = tf.transpose(embedded.real)
        if self.categorical:
            kernels["categorical"] = tf.reshape(kernel[self.real :], (-1, kernel.shape[-1]))
            rows["categorical"] = side_by_side(embedded.categorical)
        products = []
        for kind, kernel in kernels.items():
            unit = observe.unit(kernel, self.input_steps.get(kind))
            product = tf.matmul(rows[kind], observe.weight(kernel))
            product = product if products else product + observe.bias(bias, unit)
            part = name if len(kernels) == 1 else f"{name}_{kind}"
            products.append(observe(part, product, unit))
        return products[0] if len(products) == 1 else observe(name, tf.add(*products))

    def real_parts(self, embedded, weights, training):
        """Returns what `sum_real` needs of each real variable."""
        kernel, bias = (value[: self.real] for value in self.networks.hidden.values(training))
        folded, offset = fold(embedded, kernel)
        first = (folded, tf.squeeze(bias, 1) + offset)
        skip = (embedded.kernel, embedded.bias)
        residual = self.networks.residual_weights(training)
        residual = tf.nest.map_structure(lambda value: value[: self.real], residual)
        return (embedded.real, weights, first, skip, residual)

    def sum_real(self, parts, seed, observe):
        """Returns the weighted sum over the real variables' GRNs, group by group."""

        def body(part, ranges, seed):
            values, weights, first, skip, residual = part
            inner = observe.within(ranges)
            if self.fuses(seed, inner):
                activation, skip = activate(values, *first), Line(values, *skip)
                result = self.fused_sum(activation, skip, weights, residual, seed, inner)
                return result, inner.seen
            hidden, skip = expand(values, first), expand(values, skip)
            result = self.weighted_sum(hidden, skip, weights, residual, seed, inner)
            return result, inner.seen

        return self.sum_groups(body, parts, seed, observe)

    def vector_parts(self, embedded, weights, training):
        """Returns what `sum_vectors` needs of each categorical variable."""
        first = tuple(value[self.real :] for value in self.networks.hidden.values(training))
        residual = self.networks.residual_weights(training)
        residual = tf.nest.map_structure(lambda value: value[self.real :], residual)
        return (embedded.categorical, weights, first, residual)

    def sum_vectors(self, parts, seed, observe):
        """Returns the weighted sum over the categorical variables' GRNs, group by group."""

        def body(part, ranges, seed):
            vectors, weights, first, residual = part
            inner = observe.within(ranges)
            hidden = dense(vectors, first, PlainObserver(), "hidden")
            if self.fuses(seed, inner):
                activation = tf.nn.elu(hidden)
                result = self.fused_sum(activation, vectors, weights, residual, seed, inner)
                return result, inner.seen
            result = self.weighted_sum(hidden, vectors, weights, residual, seed, inner)
            return result, inner.seen

        return self.sum_groups(body, parts, seed, observe)

    def sum_groups(self, body, parts, seed, observe):
        """Sums the results of `body` over groups of variables: (rows, units)."""
        dtype = parts[0].dtype

        def widened_body(part, ranges, seed):
            result, seen = body(widened(part), ranges, seed)
            return tf.cast(result, dtype), seen

        size = even_size(parts[0].shape[0], self.group_size)
        groups = Groups(widened_body, parts, observe.ranges, size, seed, self.recompute_groups)
        rows = tf.shape(parts[0])[1]
        total, seen = groups.sum(tf.zeros((rows, self.units), dtype), observe.seen)
        observe.see(seen)
        return total

    def fuses(self, seed, observe) -> bool:
        """Returns whether groups are computed in few passes: to train."""
        plain = type(observe) is PlainObserver
        return seed is not None and (plain or (observe.tells_grids and self.variables_count > 1))

    def fused_sum(self, activation, skip, weights, residual: ResidualWeights, seed, observe):
        """Computes what `weighted_sum` does in fewer passes."""
        first = (residual.kernel, residual.bias)
        arguments = (activation, skip, weights, first, residual.gate, self.dropout, seed)
        if type(observe) is PlainObserver:
            return weighted_residual(*arguments)[0]
        names = ("normalized", "weighted")
        grids = tf.concat([observe.grid(name) for name in names], axis=0)
        result, *ends = weighted_residual(*arguments, QuantizedSumming(grids))
        for name, low, high in zip(names, ends[::2], ends[1::2], strict=True):
            observe.record(name, low, high)
        return result

    def weighted_sum(self, hidden, skip, weights, residual: ResidualWeights, seed, observe):
        """Finishes the GRNs of one group and sums them by weight: (rows, units)."""
        # A device looks the whole network up by the variable's code: nothing within is stored.
        nothing = PlainObserver()
        outputs = gated_residual(hidden, skip, residual, self.dropout, seed, nothing)
        return self.sum_weighted(observe("normalized", outputs), weights, observe)

    def sum_weighted(self, outputs, weights, observe):
        """Returns the sum of (variables, rows, units) by the weights (variables, rows)."""
        if self.variables_count == 1:
            # Its weight is 1, which an int8 softmax has no number for.
            return tf.squeeze(outputs, 0)
        weighted = observe("weighted", outputs * weights[..., tf.newaxis])
        return tf.reduce_sum(weighted, axis=0)

    def get_config(self):
        return super().get_config() | {
            "units": self.units,
            "real": self.real,
            "categorical": self.categorical,
            "context_units": self.context_units,
            "dropout": self.dropout,
            "group_size": self.group_size,
            "recompute_weighing": self.recompute_weighing,
            "recompute_groups": self.recompute_groups,
        }


def widened(part):
    """Returns a group's tensors in float32 on processors, where half precision is slower."""
    if not compiles_on_processor():
        return part
    return tf.nest.map_structure(lambda tensor: tf.cast(tensor, tf.float32), part)


def fold(embedded: Embedded, kernel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Multiplies the real variables' embeddings into the kernels (real, units, out) behind them.

    Returns:
        kernel and bias, both (real, out), of the equal linear map from the variables' numbers.
    """
    folded = tf.matmul(tf.stack([embedded.kernel, embedded.bias], axis=1), kernel)
    return folded[:, 0], folded[:, 1]


def expand(values: tf.Tensor, weights: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    """Returns values * kernel + bias.

    Args:
        values: (variables, rows).
        weights: kernel and bias, both (variables, units).

    Returns:
        (variables, rows, units).
    """
    kernel, bias = weights
    return values[..., tf.newaxis] * kernel[:, tf.newaxis] + bias[:, tf.newaxis]


def side_by_side(vectors: tf.Tensor) -> tf.Tensor:
    """Turns (variables, rows, units) into (rows, variables * units)."""
    variables, _, units = vectors.shape
    return tf.reshape(tf.transpose(vectors, (1, 0, 2)), (-1, variables * units))
