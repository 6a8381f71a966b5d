"""What commands share, below `tools` and `export`: flags, settings, error lines, progress."""
