"""Turns a repository of the hub into a folder with its files, downloaded and checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fastqps.errors import ModelError
from fastqps.models.hub.cached import Cached
from fastqps.models.hub.online import Online
from fastqps.models.hub.reference import HubReference, parse_reference
from fastqps.models.hub.selection import small_files
from fastqps.terminal import say

_fetched: dict[tuple[str, bool], Path] = {}  # of this process, so that a start resolves each revision once


def fetched(text: str, *, adapter: bool = False) -> Path:
    """The folder that this process has fetched under this name; if it has not yet, it does so now."""
    return _fetched.get((text, adapter)) or fetch(text, adapter=adapter)


def fetch(
    text: str,
    *,
    adapter: bool = False,
    offline: bool = False,
    log: Callable[[str], None] = lambda line: say(f"fastqps: {line}"),
) -> Path:
    """The folder of ``text``'s revision as it is now, with the files of a model, or of an ``adapter``, and no others.

    Each is as the hub states it: by its SHA-256, or by its hash in git. ``offline`` (or HF_HUB_OFFLINE): nothing is
    asked, and the folder is what the cache holds. Raises ``ModelError``.
    """
    reference = parse_reference(text)
    source = _source(reference, offline)
    try:
        names = small_files(source, adapter)
        root = source.take_all(names)
    except OSError as error:
        raise ModelError(f"{source.title}: {error}") from error
    how = "as the cache holds it, offline" if isinstance(source, Cached) else "checked"
    log(f"{reference} is commit {source.commit}, {how}: {root}")
    _fetched[text, adapter] = root
    return root


def _source(reference: HubReference, offline: bool) -> Online | Cached:
    # Xet is another protocol than HTTP. It gains nothing for small models, and it is not what is tested here.
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
    try:
        import huggingface_hub
        from huggingface_hub import constants
    except ImportError as error:
        raise ModelError(
            f"{reference}: the package huggingface_hub is missing ({error}); pip install huggingface-hub"
        ) from None
    del huggingface_hub
    where = Path(constants.HF_HUB_CACHE)
    return Cached(reference, where) if offline or constants.HF_HUB_OFFLINE else Online(reference, where)
