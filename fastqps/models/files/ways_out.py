"""Advice for a path or a folder that cannot be served as it is: one look at it, one sentence for the user.

Sentences about a folder that is served have no path: clients see them as the model's warnings.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

SETFIT_HEAD = "model_head.pkl"
# The vocabulary of a tokenizer that transformers can read and write as a tokenizer.json.
_VOCABULARIES = ("vocab.txt", "vocab.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")
_FOREIGN = {".onnx": "ONNX", ".gguf": "llama.cpp", ".h5": "TensorFlow", ".msgpack": "Flax", ".xml": "OpenVINO"}
_FOREIGN_FOLDERS = ("", "onnx", "openvino")  # of a checkpoint, where such weights lie
# Weights in pickles are never read, because reading one can run any code.
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_UNPICKLED = (
    "load it with transformers where you trust it, and save_pretrained writes safetensors; on the hub, a pull request "
    "of the repository may have them (hub:OWNER/NAME@refs/pr/N)"
)
_ENTRIES_MAX = 10_000  # of a folder that are looked at
# Names that Ollama has for repositories of the hub.
_ELSEWHERE = {
    "all-minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "bge-m3": "BAAI/bge-m3",
    "embeddinggemma": "google/embeddinggemma-300m",
    "mxbai-embed-large": "mixedbread-ai/mxbai-embed-large-v1",
    "nomic-embed-text": "nomic-ai/nomic-embed-text-v1.5",
    "qwen3-embedding:0.6b": "Qwen/Qwen3-Embedding-0.6B",
}


def about_path(given: str, known: Iterable[str]) -> str:
    """The path ``given`` holds no checkpoint: what it is, and what to write instead. ``known``: names that need no
    folder."""
    path = Path(given).expanduser()
    if path.is_dir():
        return _about_folder(path)
    if path.suffix == ".gguf":
        return f"{path} is llama.cpp's, which is not read: serve OWNER/NAME, the checkpoint that it was made from"
    if path.exists():
        return f"{path} is a file: name its folder, {path.parent}"
    known = sorted(known)
    beside = [str(each) for each in _entries(path.parent) if each.is_dir()]
    near = difflib.get_close_matches(given.removeprefix("./"), [*known, *beside], 1)
    names = f"a known name ({', '.join(known)})" + (f"; did you mean {near[0]!r}?" if near else "")
    there = on_hub(given) or f"OWNER/{given}" if "/" not in given else "OWNER/NAME"
    return f"no model {given!r}: neither a directory with a checkpoint nor {names}; {there} downloads one of the hub"


def on_hub(name: str) -> str | None:
    """The repository of a model that Ollama has under this name, if it is a known one."""
    return _ELSEWHERE.get(name.removesuffix(":latest"))


def about_weights(folder: Path) -> str:
    """``folder`` has no safetensors: what it has instead; ends a sentence."""
    files = [each for inside in _FOREIGN_FOLDERS for each in _entries(folder / inside)]
    if pickles := pickled(each.name for each in files if each.parent == folder):
        return f", and {pickles}"
    for each in sorted(files):
        if each.suffix in _FOREIGN:
            return (
                f", and {each.relative_to(folder)} is {_FOREIGN[each.suffix]}'s, which is not read: serve the "
                "checkpoint that it was made from (OWNER/NAME downloads one)"
            )
    return "; no other weights are read"


def about_tokenizer(folder: Path) -> str:
    """A warning about ``folder``, which has no tokenizer.json."""
    lack = "There is no tokenizer.json: requests can send token ids alone."
    if any((folder / name).is_file() for name in _VOCABULARIES):
        code = "from transformers import AutoTokenizer; AutoTokenizer.from_pretrained('.').save_pretrained('.')"
        return f"{lack} To write it, run in this folder: {_command(code)}"
    if (folder.parent / "tokenizer.json").is_file():
        return f"{lack} The folder above has one; run in this folder: cp ../*token*.json ."
    return f"{lack} Copy the tokenizer's files of the model that it was trained from into this folder."


def about_vocabulary_head() -> str:
    """A warning about a masked language model without modules.json, which may be a SPLADE model."""
    command = _command("from sentence_transformers import SparseEncoder; SparseEncoder('.').save_pretrained('splade')")
    return f"If it is a SPLADE model, run in this folder: {command} and serve the folder splade."


def about_setfit() -> str:
    """A warning about an embedder beside SetFit's classifier."""
    code = f"import joblib; head = joblib.load({SETFIT_HEAD!r})"
    return (
        f"{SETFIT_HEAD}, SetFit's classifier, is not read, because a pickle can run any code: the model embeds. Where "
        f"you trust it, classify its embeddings: {code}; head.predict_proba(vectors)"
    )


def _about_folder(path: Path) -> str:
    lack = f"{path} has no config.json"
    inside = sorted(each for each in _entries(path) if (each / "config.json").is_file())
    if steps := [each for each in inside if each.name.startswith("checkpoint-")]:
        newest = max(steps, key=lambda each: (len(each.name), each.name))
        return f"{lack}: it is the folder of a training; serve its last checkpoint, {newest}"
    if inside:
        return f"{lack}: a checkpoint is a Hugging Face directory; serve the one inside, {inside[0]}"
    return f"{lack}: a checkpoint is a Hugging Face directory"


def _command(code: str) -> str:
    return f'python -c "{code}"'


def _entries(folder: Path) -> list[Path]:
    try:
        return [each for each, _ in zip(folder.iterdir(), range(_ENTRIES_MAX), strict=False)]
    except OSError:
        return []


def pickled(names: Iterable[str]) -> str:
    """The end of a sentence about a folder without safetensors that has weights in a pickle; "" if it has none.

    ``names``: of the files in the folder.
    """
    first = min((name for name in names if name.endswith(_PICKLES) and name != "training_args.bin"), default="")
    return f"{first} is never read, because such a file can run any code; {_UNPICKLED}" if first else ""
