"""The prompts of a checkpoint: texts by name, one of which stands in front of what is embedded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastqps.errors import ModelError
from fastqps.models.files.keys import Keys

EMBEDDER_PROMPTS = ("query", "document")  # every embedding model has these, empty where no file says more


@dataclass(frozen=True)
class Prompts:
    """(name, text) of each, and the name of the one that a text gets where a request names none; "": none."""

    texts: tuple[tuple[str, str], ...] = ()
    default: str = ""

    def without_texts(self) -> Prompts:
        """The prompts that change no text."""
        return Prompts(tuple((name, text) for name, text in self.texts if not text))


NO_PROMPTS = Prompts()


def read_prompts(model: Keys, named: tuple[str, ...]) -> Prompts:
    """The prompts of the file ``model``. ``named``: those that the model has anyway, empty unless the file fills them.

    ``ModelError`` for texts that are none and a default without a text of its name.
    """
    prompts = model.get("prompts") or {}
    if not isinstance(prompts, Mapping):
        raise ModelError(f"{model.file}: prompts is no object")
    texts = dict.fromkeys(named, "")
    for name, text in prompts.items():
        if not isinstance(text, str | None):
            raise ModelError(f"{model.file}: the prompt {name!r} is {text!r}, which is no text")
        texts[name] = text or ""
    default = model.get("default_prompt_name")
    if default is not None and default not in texts:
        known = ", ".join(map(repr, texts)) or "there are none"
        raise ModelError(f"{model.file}: default_prompt_name {default!r} is none of the prompts: {known}")
    return Prompts(tuple(texts.items()), default or "")
