"""Serves small, fast models with tiny prompts at very high request rates.

The names below are loaded when they are first used: `import fastqps` alone needs neither grpc nor torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastqps.async_client import AsyncClient as AsyncClient
    from fastqps.client import Client as Client
    from fastqps.engine import Engine as Engine
    from fastqps.prediction import Chunk as Chunk
    from fastqps.prediction import Generation as Generation
    from fastqps.prediction import Prediction as Prediction
    from fastqps.prediction import PredictionError as PredictionError
    from fastqps.tokenizer import Tokenizer as Tokenizer

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "Chunk",
    "Client",
    "Engine",
    "Generation",
    "Prediction",
    "PredictionError",
    "Tokenizer",
    "__version__",
]

_HOMES = {
    "AsyncClient": "fastqps.async_client",
    "Chunk": "fastqps.prediction",
    "Client": "fastqps.client",
    "Engine": "fastqps.engine",
    "Generation": "fastqps.prediction",
    "Prediction": "fastqps.prediction",
    "PredictionError": "fastqps.prediction",
    "Tokenizer": "fastqps.tokenizer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fastqps' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
