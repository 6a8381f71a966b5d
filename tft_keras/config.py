"""Frozen settings with checks: sizes of the model, treatment of the data, the training itself.

Every config goes to JSON and back (`to_dict`, `from_dict`), refuses names it does not know, and is
changed only by `dataclasses.replace`, which runs the checks again.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar

from tft_keras.errors import InputError, nearest
from tft_keras.tiers import TIERS

_Config = TypeVar("_Config", bound="Config")
ROLES = ("static", "known", "observed")
KINDS = ("real", "categorical")


@dataclasses.dataclass(frozen=True)
class Config:
    """Base of all configs: lists become tuples, unknown names are refused.

    Attributes:
        BEFORE: what files from before a setting was there, and so without it, mean by that.
    """

    BEFORE: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
        self._check()

    def _check(self) -> None:
        """Raises `InputError` for values that break a rule."""

    def _require(self, holds: bool, rule: str, name: str, way_out: str = "") -> None:
        if not holds:
            received = f"Received: {name}={getattr(self, name)!r}."
            raise InputError(f"{rule} {received} {way_out}".rstrip())

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as a dict of plain JSON values."""
        values = dataclasses.asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    @classmethod
    def from_dict(cls: type[_Config], values: dict[str, Any]) -> _Config:
        """Makes the config from `to_dict`'s result.

        Raises:
            InputError: a name is unknown or a value breaks a rule.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                raise InputError(
                    f"{cls.__name__} has the settings {', '.join(names)}. "
                    f"Received: {name}={values[name]!r}.{nearest(name, names)}"
                )
        return cls(**cls.BEFORE | values)


@dataclasses.dataclass(frozen=True)
class ModelInput:
    """One of a model's inputs: the variables of one role and kind.

    Args:
        role: one of `ROLES`.
        kind: one of `KINDS`; real variables are float32, codes of categories int32.
        shape: of one window's part, the variables last.
        categories: of each categorical variable, the unknown token included.
    """

    role: str
    kind: str
    shape: tuple[int, ...]
    categories: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return input_name(self.role, self.kind)

    @property
    def variables(self) -> int:
        return self.shape[-1]

    @property
    def is_real(self) -> bool:
        return self.kind == "real"

    @property
    def dtype(self) -> str:
        return "float32" if self.is_real else "int32"


def input_name(role: str, kind: str) -> str:
    """Returns the name of a model's input, which is also that of its size in `ModelConfig`."""
    return f"{role}_{kind}"


@dataclasses.dataclass(frozen=True)
class ModelConfig(Config):
    """Sizes of a Temporal Fusion Transformer.

    Args:
        encoder_steps: past rows in a window.
        horizon: future rows in a window.
        static_real, known_real, observed_real: how many real-valued variables of each role there
            are. The target's history is the first observed one.
        static_categorical, known_categorical, observed_categorical: for each categorical variable
            of that role its number of categories, the unknown token (code 0) included.
        hidden_size: the paper's `d_model`.
        num_heads: attention heads; divides `hidden_size`.
        dropout: share of units dropped while training, in [0, 1).
        quantiles: the quantiles forecast, rising, each in (0, 1).
    """

    encoder_steps: int
    horizon: int
    static_real: int = 0
    static_categorical: tuple[int, ...] = ()
    known_real: int = 0
    known_categorical: tuple[int, ...] = ()
    observed_real: int = 1
    observed_categorical: tuple[int, ...] = ()
    hidden_size: int = 64
    num_heads: int = 4
    dropout: float = 0.1
    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)

    def _check(self) -> None:
        for name in ("encoder_steps", "horizon", "hidden_size", "num_heads", "observed_real"):
            rule = f"{name} must be a whole number of at least 1."
            self._require(_is_whole(getattr(self, name), 1), rule, name)
        for name in ("static_real", "known_real"):
            rule = f"{name} must be a whole number of at least 0."
            self._require(_is_whole(getattr(self, name), 0), rule, name)
        for name in ("static_categorical", "known_categorical", "observed_categorical"):
            sizes = getattr(self, name)
            rule = f"{name} lists one number of categories, at least 1, per variable."
            self._require(all(_is_whole(size, 1) for size in sizes), rule, name)
        self._require(
            self.hidden_size % self.num_heads == 0,
            f"num_heads must divide hidden_size ({self.hidden_size}).",
            "num_heads",
        )
        self._require(0 <= self.dropout < 1, "dropout must be in [0, 1).", "dropout")
        _check_quantiles(self)

    def real(self, *roles: str) -> int:
        """Returns the number of real variables of some roles."""
        return sum(getattr(self, input_name(role, "real")) for role in roles)

    def categories(self, *roles: str) -> tuple[int, ...]:
        """Returns the numbers of categories of the categorical variables of some roles."""
        return sum((getattr(self, input_name(role, "categorical")) for role in roles), ())

    def variables(self, *roles: str) -> int:
        """Returns the number of variables of some roles."""
        return self.real(*roles) + len(self.categories(*roles))

    def inputs(self) -> tuple[ModelInput, ...]:
        """Returns the model's inputs; a role without variables of a kind has no such input."""
        known = self.encoder_steps + self.horizon
        steps = {"static": (), "known": (known,), "observed": (self.encoder_steps,)}
        inputs = []
        for role in ROLES:
            if real := self.real(role):
                inputs.append(ModelInput(role, "real", (*steps[role], real)))
            if sizes := self.categories(role):
                shape = (*steps[role], len(sizes))
                inputs.append(ModelInput(role, "categorical", shape, sizes))
        return tuple(inputs)


@dataclasses.dataclass(frozen=True)
class DataConfig(Config):
    """How a table becomes scaled windows.

    Args:
        encoder_steps, horizon: rows of a window before and after its forecast origin.
        gaps: `split` (no window spans a gap), `fill` (insert rows with missing values) or `ignore`
            (count rows, not time).
        duplicates: `error` or `last`: what to do with two rows of one series at one time.
        scaling: `local` (each row's target by the level and spread of the rows up to it, other
            columns as `standard`), `standard`, `robust` (median and interquartile range), `none`,
            or `auto`, which is `standard` with scale_per_series and else `local`.
        scale_per_series: fit the real variables' scaling for each series by itself.
        local_steps: rows that local scaling takes level and spread of; 0 takes encoder_steps.
        local_statistics: `mean_std` or `robust` (median and interquartile range).
        local_observed: scale the observed columns locally, too.
        calendar: `auto` (hour, weekday, month and so on become known inputs, as they suit the
            step) or `none`.
        holidays: country (`DE`) or part of one (`DE-BY`) whose public holidays, and the days before
            and after, become a known input; none by default.
        lags: `auto` (the target one season before, and what else is known of it, becomes a known
            input, for each season that the step suggests) or `none`.
        target_log1p: forecast log(1 + target); needs a target that is never negative.
        validation, test: where these splits start within each series: a share of its rows (float)
            or the first time of the split (ISO date, or an integer for an integer time index).
        validation_steps, test_steps: the last rows of each series that are that split, instead;
            0 leaves it to the share or time.
        time_zone: whose clocks times without a zone show, and whose calendar days, months and split
            dates follow; by default that of the time column's type.
        unknown_share: share of the known categories that training replaces by the unknown token.
        cache: folder of a memory-mapped copy of the table, for tables larger than memory; without
            one the table is held in memory.
    """

    BEFORE: ClassVar[dict[str, Any]] = {"calendar": "none", "lags": "none"}

    encoder_steps: int = 48
    horizon: int = 12
    gaps: str = "split"
    duplicates: str = "error"
    scaling: str = "auto"
    scale_per_series: bool = False
    local_steps: int = 0
    local_statistics: str = "mean_std"
    local_observed: bool = False
    calendar: str = "auto"
    holidays: str | None = None
    lags: str = "auto"
    target_log1p: bool = False
    validation: float | int | str = 0.1
    test: float | int | str = 0.1
    validation_steps: int = 0
    test_steps: int = 0
    time_zone: str | None = None
    unknown_share: float = 0.01
    cache: str | None = None

    def _check(self) -> None:
        for name in ("encoder_steps", "horizon"):
            rule = f"{name} must be a whole number of at least 1."
            self._require(_is_whole(getattr(self, name), 1), rule, name)
        for name in ("validation_steps", "test_steps", "local_steps"):
            rule = f"{name} must be a whole number of at least 0."
            self._require(_is_whole(getattr(self, name), 0), rule, name)
        for name, choices in (
            ("gaps", ("split", "fill", "ignore")),
            ("duplicates", ("error", "last")),
            ("scaling", ("auto", "local", "standard", "robust", "none")),
            ("local_statistics", ("mean_std", "robust")),
            ("calendar", ("auto", "none")),
            ("lags", ("auto", "none")),
        ):
            rule = f"{name} must be one of {', '.join(choices)}."
            self._require(getattr(self, name) in choices, rule, name)
        for name in ("validation", "test"):
            value = getattr(self, name)
            rule = f"{name} must be a share in [0, 1) or the first time of the split."
            self._require(not isinstance(value, float) or 0 <= value < 1, rule, name)
        if isinstance(self.validation, float) and isinstance(self.test, float):
            rule = "validation and test together must leave rows to train on."
            self._require(self.validation + self.test < 1, rule, "test")
        rule = "unknown_share must be in [0, 1)."
        self._require(0 <= self.unknown_share < 1, rule, "unknown_share")


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Config):
    """How a model is trained.

    Args:
        epochs: passes over the training windows.
        batch_size: windows per step.
        learning_rate: Adam's, at the start.
        learning_rate_decay: `constant`, or `cosine` down to zero over all epochs.
        weight_averaging: momentum of the moving average of the weights over the steps, which is
            what is validated and forecasts; 0 takes the weights themselves.
        calibrate: move the forecast quantiles so that they hold what they say on the validation
            split.
        max_gradient_norm: gradients are scaled down to this global norm.
        windows_per_epoch: at most so many windows, drawn anew each epoch, and as many of the
            validation split; 0 uses all.
        early_stopping_patience: epochs without a better validation loss before stopping; 0 never
            stops early.
        seed: of weights, shuffling and dropout.
        precision: `float32`, `mixed_bfloat16` or `mixed_float16`.
        gradient_checkpointing: `off`, `aggressive` or `full`.
        selection_group_size: variables per sequential group of variable selection; 0 chooses it
            from the sizes.
        use_qat: quantization-aware training: the model learns to compute in 8 bits.
        qat_calibration_batches: training batches shown to observers that have no ranges yet.
        qat_percentile: of a batch's values that an observer's range takes in, at each end; below
            100 it leaves out outliers.
        freeze_qat_observers: freeze the observers' ranges when training begins.
        freeze_last_epochs: freeze the observers' ranges for so many epochs at the end.
        integer_layer_norm: normalize in 8 bits, too, for devices without float.
    """

    BEFORE: ClassVar[dict[str, Any]] = {"weight_averaging": 0.0, "calibrate": False}

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 2e-3
    learning_rate_decay: str = "cosine"
    weight_averaging: float = 0.98
    calibrate: bool = True
    max_gradient_norm: float = 1.0
    windows_per_epoch: int = 6400
    early_stopping_patience: int = 0
    seed: int = 0
    precision: str = "float32"
    gradient_checkpointing: str = "off"
    selection_group_size: int = 0
    use_qat: bool = False
    qat_calibration_batches: int = 100
    qat_percentile: float = 99.9
    freeze_qat_observers: bool = False
    freeze_last_epochs: int = 0
    integer_layer_norm: bool = False

    def _check(self) -> None:
        for name, least in (
            ("epochs", 1),
            ("batch_size", 1),
            ("windows_per_epoch", 0),
            ("early_stopping_patience", 0),
            ("seed", 0),
            ("selection_group_size", 0),
            ("qat_calibration_batches", 0),
            ("freeze_last_epochs", 0),
        ):
            rule = f"{name} must be a whole number of at least {least}."
            self._require(_is_whole(getattr(self, name), least), rule, name)
        for name in ("learning_rate", "max_gradient_norm"):
            self._require(getattr(self, name) > 0, f"{name} must be above 0.", name)
        rule = "weight_averaging must be in [0, 1)."
        self._require(0 <= self.weight_averaging < 1, rule, "weight_averaging")
        for name, choices in (
            ("learning_rate_decay", ("constant", "cosine")),
            ("precision", ("float32", "mixed_bfloat16", "mixed_float16")),
            ("gradient_checkpointing", tuple(TIERS)),
        ):
            rule = f"{name} must be one of {', '.join(choices)}."
            self._require(getattr(self, name) in choices, rule, name)
        rule = "qat_percentile must be above 50 and at most 100."
        self._require(50 < self.qat_percentile <= 100, rule, "qat_percentile")
        for name in ("freeze_qat_observers", "freeze_last_epochs", "integer_layer_norm"):
            rule = f"{name} needs observers, which only quantization-aware training has."
            self._require(self.use_qat or not getattr(self, name), rule, name, "Add use_qat.")


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _check_quantiles(config: ModelConfig) -> None:
    quantiles = config.quantiles
    rising = all(low < high for low, high in zip(quantiles, quantiles[1:], strict=False))
    inside = all(0 < quantile < 1 for quantile in quantiles)
    rule = "quantiles must be rising numbers between 0 and 1, at least one."
    config._require(bool(quantiles) and rising and inside, rule, "quantiles")
