"""Static models: a table of vectors by token id, whose mean is the embedding; model2vec, StaticEmbedding, WordLlama.

No transformer and no torch here: ``runners/static.py`` computes them.
"""

from fastqps.models.static.layouts import open_static
from fastqps.models.static.model import StaticModel

__all__ = ["StaticModel", "open_static"]
