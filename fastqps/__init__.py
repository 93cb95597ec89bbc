"""Serves small, fast models with tiny prompts at very high request rates.

The names below are loaded when they are first used: `import fastqps` alone needs neither grpc nor torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastqps.version import __version__

if TYPE_CHECKING:
    from fastqps.api.chat import Chat as Chat
    from fastqps.api.prediction import Chunk as Chunk
    from fastqps.api.prediction import Generation as Generation
    from fastqps.api.prediction import Prediction as Prediction
    from fastqps.api.prediction import PredictionError as PredictionError
    from fastqps.api.prediction import Rank as Rank
    from fastqps.client.aio import AsyncClient as AsyncClient
    from fastqps.client.sync import Client as Client
    from fastqps.devices import DeviceError as DeviceError
    from fastqps.engine.engine import Engine as Engine
    from fastqps.errors import CallError as CallError
    from fastqps.errors import Cancelled as Cancelled
    from fastqps.errors import ConfigError as ConfigError
    from fastqps.errors import DeadlineExceeded as DeadlineExceeded
    from fastqps.errors import FastqpsError as FastqpsError
    from fastqps.errors import Internal as Internal
    from fastqps.errors import InvalidArgument as InvalidArgument
    from fastqps.errors import NotFound as NotFound
    from fastqps.errors import ResourceExhausted as ResourceExhausted
    from fastqps.errors import Unauthenticated as Unauthenticated
    from fastqps.errors import Unavailable as Unavailable
    from fastqps.errors import Unimplemented as Unimplemented
    from fastqps.models import ModelError as ModelError
    from fastqps.models.tokenizers.tokenizer import Tokenizer as Tokenizer

__all__ = [
    "AsyncClient",
    "CallError",
    "Cancelled",
    "Chat",
    "Chunk",
    "Client",
    "ConfigError",
    "DeadlineExceeded",
    "DeviceError",
    "Engine",
    "FastqpsError",
    "Generation",
    "Internal",
    "InvalidArgument",
    "ModelError",
    "NotFound",
    "Prediction",
    "PredictionError",
    "Rank",
    "ResourceExhausted",
    "Tokenizer",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "__version__",
]

_HOMES = {
    "AsyncClient": "fastqps.client.aio",
    "CallError": "fastqps.errors",
    "Cancelled": "fastqps.errors",
    "Chat": "fastqps.api.chat",
    "Chunk": "fastqps.api.prediction",
    "Client": "fastqps.client.sync",
    "ConfigError": "fastqps.errors",
    "DeadlineExceeded": "fastqps.errors",
    "DeviceError": "fastqps.devices",
    "Engine": "fastqps.engine.engine",
    "FastqpsError": "fastqps.errors",
    "Generation": "fastqps.api.prediction",
    "Internal": "fastqps.errors",
    "InvalidArgument": "fastqps.errors",
    "ModelError": "fastqps.models",
    "NotFound": "fastqps.errors",
    "Prediction": "fastqps.api.prediction",
    "PredictionError": "fastqps.api.prediction",
    "Rank": "fastqps.api.prediction",
    "ResourceExhausted": "fastqps.errors",
    "Tokenizer": "fastqps.models.tokenizers.tokenizer",
    "Unauthenticated": "fastqps.errors",
    "Unavailable": "fastqps.errors",
    "Unimplemented": "fastqps.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fastqps' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
