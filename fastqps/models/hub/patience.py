"""Repeats what fails on the way to the hub, and says in one line what does not go away."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fastqps.errors import ModelError
from fastqps.models.hub.cached import Cached
from fastqps.models.hub.reference import HubReference

T = TypeVar("T")
TRIES_MAX = 5
WAIT_S = 1.0  # before the second try; twice as long before each further one
WAIT_S_MAX = 60.0
_BUSY = (408, 429, 500, 502, 503, 504)
_CLIENTS = ("httpx2", "httpx", "httpcore2", "httpcore", "requests", "urllib3")  # by the library's version


def patiently(reference: HubReference, what: str, call: Callable[[], T]) -> T:
    """The call's value. It is repeated while the hub is busy or cannot be reached, ``TRIES_MAX`` times in all.

    Raises ``ModelError``, which names the reason and the way out.
    """
    for attempt in range(TRIES_MAX):
        try:
            return call()
        except Exception as error:  # of the library, or of the HTTP client that its version uses
            cause = _cause(error)
            if not _passes(cause) or attempt == TRIES_MAX - 1:
                raise ModelError(f"{reference}: {what}: {_reason(cause, reference)}") from error
            time.sleep(min(_retry_after_s(cause) or WAIT_S * 2**attempt, WAIT_S_MAX))
    raise AssertionError("unreachable")


def _cause(error: BaseException) -> BaseException:
    """The original error, which the library wraps in its advice to look at the connection."""
    while type(error).__name__ in ("LocalEntryNotFoundError", "RuntimeError") and error.__cause__ is not None:
        error = error.__cause__
    return error


def _status(error: BaseException) -> int:
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def _passes(error: BaseException) -> bool:
    status = _status(error)
    cut_short = isinstance(error, OSError) and "Consistency check failed" in str(error)
    return status in _BUSY or cut_short or (not status and type(error).__module__.split(".")[0] in _CLIENTS)


def _retry_after_s(error: BaseException) -> float:
    headers: Any = getattr(getattr(error, "response", None), "headers", {})
    text = str(headers.get("Retry-After", ""))
    return float(text) if text.isdecimal() else 0.0


def _reason(error: BaseException, reference: HubReference) -> str:
    kind, status = type(error).__name__, _status(error)
    token = "set HF_TOKEN to a token that may read it"
    match kind:
        case "GatedRepoError":
            return f"the repository is gated: accept its terms on its page, and {token}"
        case "RepositoryNotFoundError":
            folder = "" if Path(reference.repository).exists() else "; there is no such folder either"
            return f"no such repository, or a private one: check its name, or {token}{folder}"
        case "RevisionNotFoundError":
            return f"the repository has no revision {reference.revision!r}"
        case "OfflineModeIsEnabled":
            return "HF_HUB_OFFLINE is set"
    if status in (401, 403):
        return f"the hub refuses it (HTTP {status}): {token}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk of the cache is full: free some space, or set HF_HOME to another one"
    if type(error).__module__.split(".")[0] in _CLIENTS and not status:
        return f"the hub cannot be reached ({_said(error)}): {_offline(reference)}"
    if status:
        host = urlsplit(str(getattr(getattr(error, "response", None), "url", ""))).hostname or "the hub"
        return f"HTTP {status} from {host}" + (f" after {TRIES_MAX} tries" if status in _BUSY else "")
    return f"{kind}: {_said(error)}"


def _offline(reference: HubReference) -> str:
    """What there is to do without the hub."""
    from huggingface_hub import constants

    try:
        Cached(reference, Path(constants.HF_HUB_CACHE))
    except ModelError as lack:
        return str(lack)
    return "--hub-offline serves what the cache has"


def _said(error: BaseException) -> str:
    """The first line of its message, without what opens something: an address may be signed, or have a password."""
    first = next(iter(str(error).splitlines()), "")
    return re.sub(r"(?<=//)[^\s/@]*@|\?\S+", "", first)[:300]
