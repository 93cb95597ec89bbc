"""What sentence-transformers' files add to a model: pooling, projections, limits, a cross-encoder's function."""
