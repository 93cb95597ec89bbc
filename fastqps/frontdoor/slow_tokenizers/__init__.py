"""Tokenizers that are not native here: the `tokenizers` package, in processes of a front door that can be ended.

Nothing in here tokenizes in the front door's own process. ``SlowTokenizers`` is what a front door uses.
"""

from __future__ import annotations

from fastqps.frontdoor.slow_tokenizers.pool import SlowTokenizers

__all__ = ["SlowTokenizers"]
