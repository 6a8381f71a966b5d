"""The one error that a user can mend, and the nearest-name hint that goes with it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something the caller gave is wrong and can be put right by the caller.

    The message states the rule, then `Received: name=value`, then the way out. Commands print it
    without a traceback and exit with a non-zero status.
    """


def nearest(name: str, options: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` for the option closest to `name`, or an empty string."""
    options = list(options)
    matches = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    if not matches:
        folded = {option.lower(): option for option in options}
        matches = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
        matches = [folded[match] for match in matches]
    return f" Did you mean {matches[0]!r}?" if matches else ""
