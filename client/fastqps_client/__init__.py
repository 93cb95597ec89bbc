"""Clients of fastqps servers, without the server: the same classes as in `fastqps`, and no compiled code.

The modules beside this file are links to those of the `fastqps` package.
"""

from .api.chat import Chat
from .api.prediction import Chunk, Generation, Prediction, PredictionError, Rank
from .client.aio import AsyncClient
from .client.sync import Client
from .errors import (
    CallError,
    Cancelled,
    DeadlineExceeded,
    FastqpsError,
    Internal,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from .version import __version__

__all__ = [
    "AsyncClient",
    "CallError",
    "Cancelled",
    "Chat",
    "Chunk",
    "Client",
    "DeadlineExceeded",
    "FastqpsError",
    "Generation",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "Prediction",
    "PredictionError",
    "Rank",
    "ResourceExhausted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "__version__",
]
