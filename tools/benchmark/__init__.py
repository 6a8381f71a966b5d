"""Commands that measure: `python -m tools.benchmark NAME`."""
