"""Tokenizers that are not native: the `tokenizers` package, in separate processes that a front door can kill.

No text is tokenized in the front door's own process. ``SlowTokenizers`` is the interface.
"""

from __future__ import annotations

from fastqps.frontdoor.slow_tokenizers.pool import SlowTokenizers

__all__ = ["SlowTokenizers"]
