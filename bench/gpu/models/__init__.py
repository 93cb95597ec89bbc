"""The models that the suite measures: their shapes, checkpoints, tokenizers and requests. Nothing here measures."""
