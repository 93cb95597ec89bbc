"""The files that sentence-transformers adds to a model: pooling, projections, limits, a cross-encoder's function."""
