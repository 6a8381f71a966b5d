"""The Temporal Fusion Transformer in NumPy, straight from the equations of arXiv:1912.09363.

Nothing is folded, stacked, grouped or cached: every variable is embedded, every variable has its
own network, windows are computed one by one in float64. It reads a Keras model's weights by name.
"""

from __future__ import annotations

import numpy as np


class Reference:
    """Forecasts like `model`, a `TemporalFusionTransformer`."""

    def __init__(self, model):
        self.config = model.config
        self.weights = {
            weight.name.split("/", 1)[1].split(":")[0]: weight.numpy().astype(np.float64)
            for weight in model.trainable_weights
        }

    def __call__(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        windows = len(inputs["observed_real"])
        return np.stack([self.window({k: v[i] for k, v in inputs.items()}) for i in range(windows)])

    def window(self, inputs):
        config, past = self.config, self.config.encoder_steps
        selection = enrichment = None
        hidden = cell = np.zeros(config.hidden_size)
        if config.variables("static"):
            static = self.embed("static", inputs, None)
            selected = self.select("static_selection", static, None)
            contexts = [
                self.grn(f"static_context/{name}", selected)
                for name in ("selection", "enrichment", "state_hidden", "state_cell")
            ]
            selection, enrichment, hidden, cell = contexts
        history, future = [], []
        for step in range(past + config.horizon):
            known_real, known_codes = self.embed("known", inputs, step, split=True)
            if step < past:
                real, codes = self.embed("observed", inputs, step, split=True)
                variables = real + known_real + codes + known_codes
                history.append(self.select("history_selection", variables, selection))
            elif config.variables("known"):
                variables = known_real + known_codes
                future.append(self.select("future_selection", variables, selection))
            else:
                future.append(np.zeros(config.hidden_size))
        local = []
        for step, vector in enumerate(history + future):
            name = "lstm_encoder" if step < past else "lstm_decoder"
            hidden, cell = self.lstm(name, vector, hidden, cell)
            local.append(self.gated_skip("lstm_skip", hidden, vector))
        enriched = np.stack([self.grn("enrichment", vector, enrichment) for vector in local])
        outputs = []
        for step in range(past, past + config.horizon):
            attended = self.attend(enriched, step)
            attended = self.gated_skip("attention_skip", attended, enriched[step])
            transformed = self.grn("position_wise", attended)
            outputs.append(self.gated_skip("output_skip", transformed, local[step]))
        # Quantiles that cross are sorted: no equation of the paper, see `QuantileHead`.
        return np.sort(self.linear("head/linear", np.stack(outputs)), axis=-1)

    def embed(self, role, inputs, step, split=False):
        """Returns the vectors of one role's variables at one step."""
        at = (lambda values: values) if step is None else (lambda values: values[step])
        real, codes = [], []
        for place in range(getattr(self.config, f"{role}_real")):
            kernel = self.weights[f"{role}_embedding/linear/kernel"][place, 0]
            bias = self.weights[f"{role}_embedding/linear/bias"][place, 0]
            real.append(at(inputs[f"{role}_real"])[place] * kernel + bias)
        for place in range(len(getattr(self.config, f"{role}_categorical"))):
            table = self.weights[f"{role}_embedding/table_{place}/table"]
            codes.append(table[at(inputs[f"{role}_categorical"])[place]])
        return (real, codes) if split else real + codes

    def select(self, name, vectors, context):
        """Equations 6 to 8."""
        weights = softmax(self.grn(f"{name}/weighing", np.concatenate(vectors), context))
        networks = [
            self.grn(f"{name}/networks", vector, place=place)
            for place, vector in enumerate(vectors)
        ]
        return sum(weight * network for weight, network in zip(weights, networks, strict=True))

    def grn(self, name, vector, context=None, place=None):
        """Equations 2 to 4."""
        hidden = self.linear(f"{name}/hidden", vector, place)
        if context is not None:
            hidden = hidden + context @ self.weights[f"{name}/context/kernel"]
        hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
        hidden = self.linear(f"{name}/projection", hidden, place)
        if f"{name}/skip/kernel" in self.weights:
            vector = self.linear(f"{name}/skip", vector, place)
        return self.gated_skip(name, hidden, vector, place)

    def gated_skip(self, name, vector, skip, place=None):
        """Equation 5 within LayerNorm(skip + GLU(vector))."""
        value, gate = np.split(self.linear(f"{name}/gate", vector, place), 2)
        total = skip + value * sigmoid(gate)
        gamma = self.weights[f"{name}/normalization/gamma"]
        beta = self.weights[f"{name}/normalization/beta"]
        if place is not None:
            gamma, beta = gamma[place, 0], beta[place, 0]
        return (total - total.mean()) / np.sqrt(total.var() + 1e-3) * gamma + beta

    def linear(self, name, vector, place=None):
        kernel, bias = self.weights[f"{name}/kernel"], self.weights[f"{name}/bias"]
        if place is not None:
            kernel, bias = kernel[place], bias[place, 0]
        return vector @ kernel + bias

    def lstm(self, name, vector, hidden, cell):
        weights = {
            n: self.weights[f"{name}/cell/{n}"] for n in ("kernel", "recurrent_kernel", "bias")
        }
        gates = vector @ weights["kernel"] + hidden @ weights["recurrent_kernel"] + weights["bias"]
        write, keep, candidate, read = np.split(gates, 4)
        cell = sigmoid(keep) * cell + sigmoid(write) * np.tanh(candidate)
        return sigmoid(read) * np.tanh(cell), cell

    def attend(self, enriched, step):
        """Equations 9 to 16, for one asking step."""
        heads, size = self.config.num_heads, self.config.hidden_size // self.config.num_heads
        visible = enriched[: step + 1]
        value = visible @ self.weights["attention/value/kernel"]
        attended = 0
        for head in range(heads):
            columns = slice(head * size, (head + 1) * size)
            query = enriched[step] @ self.weights["attention/query/kernel"][:, columns]
            key = visible @ self.weights["attention/key/kernel"][:, columns]
            attended = attended + softmax(key @ query / np.sqrt(size)) @ value / heads
        return attended @ self.weights["attention/output/kernel"]


def softmax(scores):
    scores = np.exp(scores - scores.max())
    return scores / scores.sum()


def sigmoid(values):
    return 1 / (1 + np.exp(-values))
