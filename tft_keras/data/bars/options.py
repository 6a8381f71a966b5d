"""Settings of the way from bars to features."""

from __future__ import annotations

import dataclasses
import importlib
from types import ModuleType
from typing import Any

from tft_keras.config import Config, DataConfig
from tft_keras.errors import InputError

TARGETS = ("log_return", "realized_volatility", "price")
AUTO = "auto"
ALWAYS_OPEN = "24/7"
MOST_TARGET_STEPS = 120
_REALIZED_VOLATILITY_STEPS = 10


@dataclasses.dataclass(frozen=True)
class BarOptions(Config):
    """How bars become features.

    Args:
        time, open, high, low, close, volume: columns of the bars; None finds them by their usual
            names.
        group: columns whose values together name an instrument; None finds one by its usual names,
            and takes the table for one instrument if there is none.
        time_zone: of times that have none; None takes these for UTC.
        exchange: calendar of the trading sessions, by its name in pandas_market_calendars (NYSE,
            CMEGlobex_FX, ...), `24/7`, or `auto`: 24/7 if there are bars at all hours of all days,
            else daily sessions as the gaps of the training rows have them.
        target: `log_return`, `realized_volatility` or `price`, each known at its own bar.
        target_steps: bars that the target looks back on: the return over them, or the volatility
            in them; 0 is 1 for returns and 10 for volatility.
        bar_minutes: distance of bars; 0 takes the most frequent one.
        max_filled_bars: longest run of missing bars within a session that is filled with bars
            without trades; a longer gap begins a new session.
        training_share: share of an instrument's rows, from the first, that training may see; the
            rest is halved into validation and test. Static inputs are of these rows.
        encoder_steps, horizon: rows of a window, for the settings of the training.
        gaps: `split`, `ignore`, or `auto`: `split` where most sessions have room for windows.
        future_rows: rows after the last bar that have known inputs only, for a forecast.
    """

    time: str | None = None
    group: tuple[str, ...] | None = None
    open: str | None = None
    high: str | None = None
    low: str | None = None
    close: str | None = None
    volume: str | None = None
    time_zone: str | None = None
    exchange: str = AUTO
    target: str = TARGETS[0]
    target_steps: int = 0
    bar_minutes: float = 0.0
    max_filled_bars: int = 10
    training_share: float = 0.8
    encoder_steps: int = 50
    horizon: int = 10
    gaps: str = AUTO
    future_rows: int = 0

    def _check(self) -> None:
        for name, least in (
            ("target_steps", 0),
            ("max_filled_bars", 0),
            ("encoder_steps", 1),
            ("horizon", 1),
            ("future_rows", 0),
        ):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            rule = f"{name} must be a whole number of at least {least}."
            self._require(whole and value >= least, rule, name)
        for name, choices in (("target", TARGETS), ("gaps", ("split", "ignore", AUTO))):
            rule = f"{name} must be one of {', '.join(choices)}."
            self._require(getattr(self, name) in choices, rule, name)
        rule = f"target_steps must be at most {MOST_TARGET_STEPS}."
        self._require(self.target_steps <= MOST_TARGET_STEPS, rule, "target_steps")
        rule = "A price is of one bar, so target_steps must be 1 (or 0)."
        self._require(self.target != "price" or self.target_steps <= 1, rule, "target_steps")
        rule = "bar_minutes must be above 0, or 0 to take the most frequent distance."
        self._require(self.bar_minutes >= 0, rule, "bar_minutes")
        rule = "training_share must be above 0 and below 1."
        self._require(0 < self.training_share < 1, rule, "training_share")

    @property
    def steps(self) -> int:
        """Bars that the target looks back on."""
        default = _REALIZED_VOLATILITY_STEPS if self.target == "realized_volatility" else 1
        return self.target_steps or default

    @property
    def split_share(self) -> float:
        """Share of validation, and of test, that `DataConfig` is given."""
        return round((1 - self.training_share) / 2, 12)

    def training_rows(self, rows: int) -> int:
        """Returns how many of an instrument's rows `tft_keras.data.prepare` trains on."""
        share = DataConfig(validation=self.split_share, test=self.split_share)
        parts = [int(rows * part + 0.5) for part in (share.test, share.validation)]
        return max(rows - sum(parts), 0)


def require(module: str) -> ModuleType:
    """Imports a library of the extra `bars`.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"Features of bars need the library {module}. Received: {error}. Install it with "
            "`pip install 'tft-keras[bars]'`."
        ) from None


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Returns settings without those that only say where the bars' columns are."""
    names = ("time", "group", "open", "high", "low", "close", "volume", "time_zone", "future_rows")
    return {name: value for name, value in values.items() if name not in names}
