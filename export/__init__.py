"""Export of trained runs to INT8 TFLite, float32 TFLite and SavedModel: see `export.exporting`."""
