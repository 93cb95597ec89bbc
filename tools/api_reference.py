"""docs/python-api.md, written from the docstrings: ``python tools/api_reference.py > docs/python-api.md``."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

from fastqps import AsyncClient, CallError, Client, Engine, errors
from fastqps.api import prediction
from fastqps.api.request import Options, option_type
from fastqps.api.served_model import Model
from fastqps.client.base import ClientBase

_HEAD = """\
# Python API

Written by `python tools/api_reference.py > docs/python-api.md` from the docstrings; change those instead.

`fastqps` and the package [fastqps-client](../client/README.md) have the same clients. `Engine` is in `fastqps` alone.
"""
_ANSWERS = (
    prediction.Prediction,
    prediction.PredictionError,
    prediction.Label,
    prediction.Rank,
    prediction.Entity,
    prediction.SparseEmbedding,
    prediction.Generation,
    prediction.Chunk,
    prediction.Usage,
    Model,
)
_SHORT_NAMES = {
    "ndarray[tuple[Any, ...], dtype[float32]]": "Vector",
    "ndarray[tuple[Any, ...], dtype[uint32]]": "NDArray[uint32]",
    "str | tuple[str, str] | Sequence[int] | Chat | PredictRequest": "Item",
}


def _written(annotated: str) -> str:
    """Types without their modules."""
    plain = re.sub(r"\b(?:[a-z_0-9]+\.)+(?=[A-Za-z])", "", annotated)
    plain = re.sub(r"\*<class '(\w+)'>", r"Unpack[\1]", plain)
    for long, short in _SHORT_NAMES.items():
        plain = plain.replace(long, short)
    return plain


def _signature(of: Any) -> str:
    signature = inspect.signature(of, eval_str=True)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    return _written(str(signature.replace(parameters=parameters)))


def _doc(of: object) -> str:
    """A docstring whose lists are blocks of Markdown."""
    return re.sub(r"^(Args|Attributes):\n", r"\1:\n\n", inspect.getdoc(of) or "", flags=re.MULTILINE)


def _method(owner: type, name: str) -> str:
    method = getattr(owner, name)
    return f"### {owner.__name__}.{name}\n\n```python\n{name}{_signature(method)}\n```\n\n{_doc(method)}\n"


def _methods(owner: type) -> Iterator[str]:
    for name, value in vars(owner).items():
        if not name.startswith("_") and inspect.isfunction(value):
            yield _method(owner, name)


def _options() -> str:
    rows = []
    for name, kind in Options.__annotations__.items():
        written = option_type(name).replace("|", "\\|")
        rows.append(f"| `{name}` | `{written}` | {kind.__metadata__[0]} |")
    head = "## Options of an item\n\nAll calls that ask for items take them by name.\n"
    return "\n".join([head, "| option | type | meaning |", "|---|---|---|", *rows, ""])


def _answer(kind: type) -> str:
    fields = [f"{field.name}: {_written(inspect.formatannotation(field.type))}" for field in dataclasses.fields(kind)]
    written = "\n".join(fields).replace("'", '"')  # as ruff writes the code of a page
    return f"### {kind.__name__}\n\n{_doc(kind)}\n\n```python\n{written}\n```\n"


def _errors() -> str:
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, CallError)]
    rows = "\n".join(f"| `{kind.__name__}` | {kind.code} | {_doc(kind).splitlines()[0]} |" for kind in kinds)
    return f"## Errors\n\n{_doc(CallError)}\n\n| error | code | meaning |\n|---|---|---|\n{rows}\n"


def page() -> str:
    """The text of docs/python-api.md."""
    return "\n".join(
        [
            _HEAD,
            f"## Client\n\n{_doc(Client).partition(ClientBase.OPTIONS_HEAD)[0].rstrip()}\n",
            f"```python\nClient{_signature(Client)}\n```\n\n{_doc(ClientBase.__init__)}\n",
            *_methods(Client),
            f"## AsyncClient\n\n{_doc(AsyncClient).partition(ClientBase.OPTIONS_HEAD)[0].rstrip()}\n",
            _options(),
            "## Answers\n",
            *(_answer(kind) for kind in _ANSWERS),
            _errors(),
            f"## Engine\n\n{_doc(Engine)}\n\n```python\nEngine{_signature(Engine)}\n```\n",
            *_methods(Engine),
        ]
    )


if __name__ == "__main__":
    print(page(), end="")
