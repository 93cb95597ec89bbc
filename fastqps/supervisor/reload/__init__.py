"""New versions of models, warmed up beside those that serve."""
