"""The Temporal Fusion Transformer, to be read beside figure 2 of arXiv:1912.09363."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tft_keras.config import KINDS, ROLES, ModelConfig, input_name
from tft_keras.layers.dropout import SeedSource, derive_seed
from tft_keras.layers.gated_linear_unit import GatedSkip
from tft_keras.layers.gated_residual_network import GatedResidualNetwork
from tft_keras.layers.input_embedding import Embedded, InputEmbedding, concatenate, cut_steps
from tft_keras.layers.interpretable_attention import InterpretableAttention
from tft_keras.layers.lstm import LSTM
from tft_keras.layers.quantile_head import QuantileHead
from tft_keras.layers.quantized_inputs import QuantizedInputs
from tft_keras.layers.sequential import default_size
from tft_keras.layers.shared_range import SharedRange
from tft_keras.layers.static_context import Contexts, StaticContext
from tft_keras.layers.variable_selection import VariableSelection
from tft_keras.quantization import FreezableMovingAverageQuantizer
from tft_keras.quantization import control as quantization
from tft_keras.quantization.sums import connect_sums
from tft_keras.recompute import recompute
from tft_keras.tiers import blocks_of


@keras.utils.register_keras_serializable("tft_keras")
class TemporalFusionTransformer(keras.Model):
    """Forecasts quantiles of a target over a horizon from static, known and observed variables.

    1. Embeddings make every variable a vector; static variables are selected and encoded to four
       contexts (section 4.3).
    2. Variable selection weighs the past's and the future's variables (section 4.2).
    3. An LSTM encoder over the past and a decoder over the future, started from two contexts,
       give local patterns (section 4.5.1).
    4. Static enrichment, interpretable attention over all steps and a position-wise network give
       long-term ones (sections 4.5.2 to 4.5.4). Gated skip connections lead past each part.
    5. A linear layer gives the quantiles of each step of the horizon (section 4.6).

    The attention asks from the horizon's steps alone, as only these are forecast. All variables of
    a role may be absent but the observed real ones, among which the target's history comes first.

    Args:
        config: `ModelConfig`, or the dict it gives.
        seed: of the dropout masks.
        gradient_checkpointing: `off`, `aggressive`, `full`, or the names of the blocks
            (`tft_keras.tiers`) that are recomputed in the backward pass instead of kept in memory.
        selection_group_size: variables that variable selection processes at once; by default as
            many as fit a processor's cache.
        quantized: whether leaves and observers quantize (`tft_keras.quantization`).
        observers: settings of the observers, `decay` and `percentile`; see
            `FreezableMovingAverageQuantizer`.
        integer_layer_norm: whether a quantized model normalizes in 8 bits, too.

    Call arguments:
        inputs: dict with those of these keys for which there are variables:
            static_real (batch, static_real), static_categorical (batch, variables),
            known_real, known_categorical (batch, encoder_steps + horizon, variables),
            observed_real, observed_categorical (batch, encoder_steps, variables).
            Real ones are floating point, categorical ones integer codes.
        training: whether to drop units.

    Outputs: (batch, horizon, quantiles), float32.

    Raises:
        InputError: a setting breaks a rule.
    """

    def __init__(
        self,
        config: ModelConfig | dict,
        seed: int = 0,
        gradient_checkpointing: str | tuple[str, ...] = "off",
        selection_group_size: int | None = None,
        quantized: bool = False,
        observers: dict | None = None,
        integer_layer_norm: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = ModelConfig.from_dict(config) if isinstance(config, dict) else config
        self.seed = seed
        self.selection_group_size = selection_group_size
        self.quantized = quantized
        self.integer_layer_norm = integer_layer_norm
        self.dropout_seeds = SeedSource(seed, name="dropout_seeds")
        self._create_layers()
        self.gradient_checkpointing = gradient_checkpointing
        self.build()
        self.observer_settings = dict(observers or {})
        if quantized:
            quantizer = FreezableMovingAverageQuantizer(**self.observer_settings)
            for layer in quantization.observers_of(self).values():
                layer.quantizer = quantizer
            connect_sums(self)

    def _create_layers(self) -> None:
        config, units = self.config, self.config.hidden_size
        quantized, dropout = self.quantization, config.dropout
        context = units if config.variables("static") else 0
        real = {part.name: part.variables for part in config.inputs() if part.is_real}
        self.quantized_inputs = QuantizedInputs(real, name="inputs", **quantized)
        if config.categories(*ROLES):
            # Vectors of all roles are joined: one range for all.
            self.vectors_range = SharedRange(name="vectors", **quantized)
        self.observed_embedding = self._embedding("observed")
        if config.variables("known"):
            self.known_embedding = self._embedding("known")
            self.future_selection = self._selection("future", config.horizon, context, "known")
        if config.variables("static"):
            self.static_embedding = self._embedding("static")
            self.static_selection = self._selection("static", 1, 0, "static")
            self.static_selected = SharedRange(name="static_selected", **quantized)
            self.static_context = StaticContext(units, dropout, name="static_context", **quantized)
        # Steps of the past and of the future are later joined: one range for both.
        self.selected = SharedRange(name="selected", **quantized)
        self.history_selection = self._selection(
            "history", config.encoder_steps, context, "observed", "known"
        )
        self.lstm_encoder = LSTM(units, name="lstm_encoder", **quantized)
        self.lstm_decoder = LSTM(units, name="lstm_decoder", **quantized)
        self.lstm_skip = GatedSkip(units, dropout, name="lstm_skip", **quantized)
        self.enrichment = GatedResidualNetwork(
            units, context_units=context, dropout=dropout, name="enrichment", **quantized
        )
        scores = config.num_heads * (config.encoder_steps + config.horizon)
        self.attention = InterpretableAttention(
            units,
            config.num_heads,
            config.horizon,
            # Several tensors of the scores' size belong to a part.
            query_size=default_size(config.horizon, 4 * scores),
            name="attention",
            **quantized,
        )
        self.attention_skip = GatedSkip(units, dropout, name="attention_skip", **quantized)
        self.position_wise = GatedResidualNetwork(
            units, dropout=dropout, name="position_wise", **quantized
        )
        self.output_skip = GatedSkip(units, 0.0, name="output_skip", **quantized)
        self.head = QuantileHead(len(config.quantiles), name="head", **quantized)

    @property
    def quantization(self) -> dict[str, bool]:
        """Settings that every layer has."""
        return {"quantized": self.quantized, "integer_layer_norm": self.integer_layer_norm}

    def _embedding(self, role: str) -> InputEmbedding:
        return InputEmbedding(
            self.config.hidden_size,
            self.config.real(role),
            self.config.categories(role),
            name=f"{role}_embedding",
            **self.quantization,
        )

    def _selection(self, name: str, steps: int, context: int, *roles: str) -> VariableSelection:
        config, units = self.config, self.config.hidden_size
        real, categorical = config.real(*roles), len(config.categories(*roles))
        size = self.selection_group_size or default_size(real + categorical, steps * units)
        return VariableSelection(
            units,
            real,
            categorical,
            context,
            config.dropout,
            group_size=size,
            name=f"{name}_selection",
            **self.quantization,
        )

    def build(self, input_shape=None):
        """Creates all weights; the sizes come from the config, so no argument is needed."""
        if self.built:
            return
        units, shape = self.config.hidden_size, (None, None, self.config.hidden_size)
        with tf.name_scope(self.name):
            for layer in self.layers:
                with tf.name_scope(layer.name):
                    layer.build((None, units) if layer.name == "static_context" else shape)
        self.built = True

    @tf.autograph.experimental.do_not_convert  # there is nothing to convert, and tracing is slow
    def call(self, inputs, training=None):
        return self._forward(inputs, training)["quantiles"]

    def freeze_observers(self) -> None:
        """Stops the observers' ranges from moving. See `tft_keras.quantization`."""
        quantization.freeze_observers(self)

    def unfreeze_observers(self) -> None:
        """Lets the observers' ranges move again while training."""
        quantization.unfreeze_observers(self)

    @property
    def observers_frozen(self) -> bool:
        """Whether the observers are frozen."""
        return quantization.observers_frozen(self)

    def observer_report(self) -> list[dict[str, Any]]:
        """Returns each observer's name, range, grid, samples and state."""
        return quantization.observer_report(self)

    def interpret(self, inputs) -> dict[str, tf.Tensor]:
        """Returns what the forecast looked at.

        Returns:
            static_weights (batch, static variables), if there are any; history_weights
            (batch, encoder_steps, history variables); future_weights (batch, horizon, known
            variables), if there are any; attention (batch, heads, horizon, encoder_steps +
            horizon); quantiles, as called. Weights sum to 1 over their last axis; of each role
            real variables come first, observed before known.
        """
        return self._forward(inputs, training=False, details=True)

    def _forward(self, inputs, training, details: bool = False) -> dict[str, tf.Tensor]:
        training = bool(training)
        inputs, sizes = self.quantized_inputs(inputs, training=training)
        seed = self.dropout_seeds.next_seed() if training else None
        seeds = [derive_seed(seed, place) for place in range(9)]
        results: dict[str, tf.Tensor] = {}

        static, known, observed = self._embed(inputs, sizes, training)
        contexts = self._encode_static(static, seeds[0], seeds[1], training, results)
        known = self._cut_known(known)
        history = self._select_history(
            observed, known, contexts.selection, seeds[2], training, results
        )
        future = self._select_future(
            known, history, contexts.selection, seeds[3], training, results
        )
        history, future = self.selected((history, future), training=training)

        local = self._encode_sequence(history, future, contexts, training)
        local = self.lstm_skip(
            local, tf.concat([history, future], axis=1), seed=seeds[4], training=training
        )

        def enrich(local, context, seed):
            context = None if context is None else context[:, tf.newaxis]
            return self.enrichment(local, context, seed=seed, training=training)

        def attend(enriched, seed_attention, seed_position):
            attended = self.attention(enriched, training=training, return_attention=details)
            attended, attention = attended if details else (attended, None)
            asking = enriched[:, -self.config.horizon :]
            attended = self.attention_skip(attended, asking, seed=seed_attention, training=training)
            transformed = self.position_wise(attended, seed=seed_position, training=training)
            return transformed, attention

        # Two parts, so that the way back never needs the intermediate results of both.
        enriched = self._block("temporal_attention", enrich, local, contexts.enrichment, seeds[5])
        transformed, attention = self._block("temporal_attention", attend, enriched, *seeds[6:8])
        if details:
            results["attention"] = attention
        outputs = self.output_skip(
            transformed, local[:, -self.config.horizon :], seed=seeds[8], training=training
        )
        return results | {"quantiles": self.head(outputs, training=training)}

    def _embed(self, inputs, sizes, training) -> list[Embedded | None]:
        """Returns the embedded variables of each role, `None` for one without any."""
        with self.observing_vectors(training) as observe:
            return [self.embed_role(role, inputs, sizes, observe, training) for role in ROLES]

    def observing_vectors(self, training: bool | None):
        """Gives the observer that `embed_role` passes vectors of categories through."""
        if hasattr(self, "vectors_range"):
            return self.vectors_range.observing(training)
        return contextlib.nullcontext()

    def embed_role(self, role, inputs, sizes, observe=None, training=None) -> Embedded | None:
        """Embeds the variables of one role.

        Args:
            role: `static`, `known` or `observed`.
            inputs, sizes: what `QuantizedInputs` gives.
            observe: passes the vectors of categorical variables.
        """
        embedding = getattr(self, f"{role}_embedding", None)
        if embedding is None:
            return None
        real, categorical = (input_name(role, kind) for kind in KINDS)
        return Embedded(
            *embedding(
                inputs.get(real), inputs.get(categorical), sizes.get(real), observe, training
            )
        )

    def _encode_static(self, embedded, seed_selection, seed_context, training, results) -> Contexts:
        if embedded is None:
            return Contexts()
        selected, weights = self.static_selection(embedded, seed=seed_selection, training=training)
        results["static_weights"] = weights
        selected = self.static_selected(selected, training=training)

        def encode(selected, seed):
            return self.static_context(selected, seed=seed, training=training)

        return self._block("static_encoder", encode, selected, seed_context)

    def _cut_known(self, known: Embedded | None) -> list[Embedded | None]:
        """Returns the known variables of the past and of the future, or nothing twice."""
        if known is None:
            return [None, None]
        past, total = self.config.encoder_steps, self.config.encoder_steps + self.config.horizon
        return [cut_steps(known, total, slice(past)), cut_steps(known, total, slice(past, None))]

    def _select_history(self, observed, known, context, seed, training, results):
        parts = [observed] + ([known[0]] if known[0] else [])
        selected, weights = self.history_selection(
            concatenate(parts), context, seed=seed, training=training
        )
        steps = self.config.encoder_steps
        results["history_weights"] = tf.reshape(weights, (-1, steps, weights.shape[-1]))
        return tf.reshape(selected, (-1, steps, self.config.hidden_size))

    def _select_future(self, known, history, context, seed, training, results):
        horizon, units = self.config.horizon, self.config.hidden_size
        if known[1] is None:
            # Nothing is known of the future: the decoder runs on from the encoder's state alone.
            nothing = tf.zeros((tf.shape(history)[0], horizon, units), history.dtype)
            if not self.quantized:
                return nothing
            # Without a range the file would give zeros so fine a step that the decoder's bias,
            # counted in it, overflows 32 bits.
            return tf.cast(
                tf.quantization.fake_quant_with_min_max_args(tf.cast(nothing, tf.float32), -1, 1),
                history.dtype,
            )
        selected, weights = self.future_selection(known[1], context, seed=seed, training=training)
        results["future_weights"] = tf.reshape(weights, (-1, horizon, weights.shape[-1]))
        return tf.reshape(selected, (-1, horizon, units))

    def _encode_sequence(self, history, future, contexts: Contexts, training):
        hidden, cell = contexts.state_hidden, contexts.state_cell
        if hidden is None:
            hidden = cell = tf.zeros_like(history[:, 0])

        def encode(inputs, hidden, cell):
            return self.lstm_encoder(inputs, hidden, cell, training=training)

        def decode(inputs, hidden, cell):
            return self.lstm_decoder(inputs, hidden, cell, training=training)[0]

        past, hidden, cell = self._block("lstm_encoder", encode, history, hidden, cell)
        ahead = self._block("lstm_decoder", decode, future, hidden, cell)
        return tf.concat([past, ahead], axis=1)

    @property
    def gradient_checkpointing(self) -> str | tuple[str, ...]:
        """The tier, or the names of the blocks, recomputed in the backward pass.

        It may be changed at any time and touches no weights.
        """
        return self._gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, choice: str | tuple[str, ...]) -> None:
        names = blocks_of(choice)
        self._gradient_checkpointing = choice if isinstance(choice, str) else names
        self._recomputed = frozenset(names)
        for encoder, name in (
            ("static_encoder", "static_selection"),
            ("history_encoder", "history_selection"),
            ("future_encoder", "future_selection"),
        ):
            selection = getattr(self, name, None)
            if selection is not None:
                selection.recompute_weighing = encoder in names
                selection.recompute_groups = "variable_selection" in names
        self.attention.recompute_queries = "variable_selection" in names
        # What `fit` has traced still holds the former choice.
        self.train_function = None

    def _block(self, name: str, body: Callable[..., Any], *arguments: Any) -> Any:
        """Calls `body(*arguments)`, recomputed in the backward pass if the choice says so."""
        return recompute(body, *arguments, when=name in self._recomputed)

    def get_config(self):
        return {
            "name": self.name,
            "config": self.config.to_dict(),
            "seed": self.seed,
            "gradient_checkpointing": self.gradient_checkpointing,
            "selection_group_size": self.selection_group_size,
            **self.quantization,
            "observers": dict(self.observer_settings),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)
