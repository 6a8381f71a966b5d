"""The Temporal Fusion Transformer, to be read beside figure 2 of arXiv:1912.09363."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tft_keras.config import ModelConfig
from tft_keras.errors import InputError, nearest
from tft_keras.layers.dropout import SeedSource, derive_seed
from tft_keras.layers.gated_linear_unit import GatedSkip
from tft_keras.layers.gated_residual_network import GatedResidualNetwork
from tft_keras.layers.input_embedding import InputEmbedding, concatenate
from tft_keras.layers.interpretable_attention import InterpretableAttention
from tft_keras.layers.lstm import LSTM
from tft_keras.layers.quantile_head import QuantileHead
from tft_keras.layers.static_context import Contexts, StaticContext
from tft_keras.layers.variable_selection import VariableSelection, default_group_size
from tft_keras.recompute import recompute

BLOCKS = (
    "static_encoder",
    "history_encoder",
    "future_encoder",
    "lstm_encoder",
    "lstm_decoder",
    "temporal_attention",
    "variable_selection",
)
TIERS = {"off": (), "aggressive": BLOCKS[:6], "full": BLOCKS}


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
        gradient_checkpointing: `off`, `aggressive`, `full`, or the names of the blocks (`BLOCKS`)
            that are recomputed in the backward pass instead of kept in memory.
        selection_group_size: variables that variable selection processes at once; by default as
            many as fit a processor's cache.

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
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = ModelConfig.from_dict(config) if isinstance(config, dict) else config
        self.seed = seed
        self.selection_group_size = selection_group_size
        self.dropout_seeds = SeedSource(seed, name="dropout_seeds")
        self._create_layers()
        self.gradient_checkpointing = gradient_checkpointing
        self.build()

    def _create_layers(self) -> None:
        config, units, dropout = self.config, self.config.hidden_size, self.config.dropout

        def selection(name: str, real: int, categorical: int, steps: int, context: int):
            size = self.selection_group_size or default_group_size(real + categorical, steps, units)
            return VariableSelection(
                units, real, categorical, context, dropout, group_size=size, name=name
            )

        def embedding(role: str):
            real, categorical = (
                getattr(config, f"{role}_real"),
                getattr(config, f"{role}_categorical"),
            )
            return InputEmbedding(units, real, categorical, name=f"{role}_embedding")

        context = units if config.static_variables else 0
        self.observed_embedding = embedding("observed")
        if config.known_variables:
            self.known_embedding = embedding("known")
            self.future_selection = selection(
                "future_selection",
                config.known_real,
                len(config.known_categorical),
                config.horizon,
                context,
            )
        if config.static_variables:
            self.static_embedding = embedding("static")
            self.static_selection = selection(
                "static_selection", config.static_real, len(config.static_categorical), 1, 0
            )
            self.static_context = StaticContext(units, dropout, name="static_context")
        self.history_selection = selection(
            "history_selection",
            config.observed_real + config.known_real,
            len(config.observed_categorical) + len(config.known_categorical),
            config.encoder_steps,
            context,
        )
        self.lstm_encoder = LSTM(units, name="lstm_encoder")
        self.lstm_decoder = LSTM(units, name="lstm_decoder")
        self.lstm_skip = GatedSkip(units, dropout, name="lstm_skip")
        self.enrichment = GatedResidualNetwork(
            units, context_units=context, dropout=dropout, name="enrichment"
        )
        self.attention = InterpretableAttention(
            units, config.num_heads, config.horizon, name="attention"
        )
        self.attention_skip = GatedSkip(units, dropout, name="attention_skip")
        self.position_wise = GatedResidualNetwork(units, dropout=dropout, name="position_wise")
        self.output_skip = GatedSkip(units, 0.0, name="output_skip")
        self.head = QuantileHead(len(config.quantiles), name="head")

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
        seed = self.dropout_seeds.next_seed() if training else None
        seeds = [derive_seed(seed, place) for place in range(9)]
        results: dict[str, tf.Tensor] = {}

        contexts = self._encode_static(inputs, seeds[0], seeds[1], training, results)
        history = self._select_history(inputs, contexts.selection, seeds[2], training, results)
        future = self._select_future(
            inputs, history, contexts.selection, seeds[3], training, results
        )

        local = self._encode_sequence(history, future, contexts, training)
        local = self.lstm_skip(
            local, tf.concat([history, future], axis=1), seed=seeds[4], training=training
        )

        def attend(local, context, seed_enrichment, seed_attention, seed_position):
            context = None if context is None else context[:, tf.newaxis]
            enriched = self.enrichment(local, context, seed=seed_enrichment, training=training)
            attended = self.attention(enriched, training=training, return_attention=details)
            attended, attention = attended if details else (attended, None)
            asking = enriched[:, -self.config.horizon :]
            attended = self.attention_skip(attended, asking, seed=seed_attention, training=training)
            transformed = self.position_wise(attended, seed=seed_position, training=training)
            return transformed, attention

        transformed, attention = self._block(
            "temporal_attention", attend, local, contexts.enrichment, *seeds[5:8]
        )
        if details:
            results["attention"] = attention
        outputs = self.output_skip(
            transformed, local[:, -self.config.horizon :], seed=seeds[8], training=training
        )
        return results | {"quantiles": self.head(outputs, training=training)}

    def _encode_static(self, inputs, seed_selection, seed_context, training, results) -> Contexts:
        if not self.config.static_variables:
            return Contexts()
        embedded = self.static_embedding(
            inputs.get("static_real"), inputs.get("static_categorical"), training=training
        )
        selected, weights = self.static_selection(embedded, seed=seed_selection, training=training)
        results["static_weights"] = weights

        def encode(selected, seed):
            return self.static_context(selected, seed=seed, training=training)

        return self._block("static_encoder", encode, selected, seed_context)

    def _select_history(self, inputs, context, seed, training, results):
        past = slice(None, self.config.encoder_steps)
        parts = [
            self.observed_embedding(
                inputs.get("observed_real"), inputs.get("observed_categorical"), training=training
            )
        ]
        if self.config.known_variables:
            parts.append(self._embed_known(inputs, past, training))
        selected, weights = self.history_selection(
            concatenate(parts), context, seed=seed, training=training
        )
        steps = self.config.encoder_steps
        results["history_weights"] = tf.reshape(weights, (-1, steps, weights.shape[-1]))
        return tf.reshape(selected, (-1, steps, self.config.hidden_size))

    def _select_future(self, inputs, history, context, seed, training, results):
        horizon, units = self.config.horizon, self.config.hidden_size
        if not self.config.known_variables:
            # Nothing is known of the future: the decoder runs on from the encoder's state alone.
            return tf.zeros((tf.shape(history)[0], horizon, units), history.dtype)
        future = slice(self.config.encoder_steps, None)
        embedded = self._embed_known(inputs, future, training)
        selected, weights = self.future_selection(embedded, context, seed=seed, training=training)
        results["future_weights"] = tf.reshape(weights, (-1, horizon, weights.shape[-1]))
        return tf.reshape(selected, (-1, horizon, units))

    def _embed_known(self, inputs, steps: slice, training):
        known = [inputs.get("known_real"), inputs.get("known_categorical")]
        known = [None if values is None else values[:, steps] for values in known]
        return self.known_embedding(*known, training=training)

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
        names = TIERS.get(choice) if isinstance(choice, str) else tuple(choice)
        known = (*TIERS, *BLOCKS)
        for name in (choice,) if names is None else names:
            if names is None or name not in BLOCKS:
                raise InputError(
                    f"gradient_checkpointing is one of {', '.join(TIERS)}, or lists blocks out of "
                    f"{', '.join(BLOCKS)}. Received: gradient_checkpointing={choice!r}."
                    f"{nearest(str(name), known)}"
                )
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
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)
