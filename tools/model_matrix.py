"""Writes the matrix of docs/models.md again, from the registry of families and the tables of devices.

``python tools/model_matrix.py`` replaces what stands between the two marks of the page.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from fastqps.devices import DEVICES
from fastqps.models.families import FAMILIES, DecoderFamily, EncoderFamily
from fastqps.models.families.llama_encoder import encoder_of
from fastqps.ops.precision import QUANTIZATIONS
from fastqps.runners.kinds import DECODE, ENCODE, StepKind

PAGE = Path(__file__).resolve().parent.parent / "docs/models.md"
BEGIN, END = "<!-- the matrix, by tools/model_matrix.py -->\n", "<!-- the end of the matrix -->\n"
_TASKS = ("embed", "classify", "token classify", "sparse", "vector by token", "generate")
_COMPUTING = ("cpu", "cuda")  # null and sim answer for every model, and compute nothing
_NOT_ON = {"cuda": ("int8",)}  # GPUs multiply in FP8


def matrix() -> str:
    """Family × task, then device × task × quantization."""
    lines = ["| `model_type` |" + "".join(f" {task} |" for task in _TASKS), "|---|" + ":-:|" * len(_TASKS)]
    for kind, family in FAMILIES.items():
        lines.append(f"| `{kind}` |" + "".join(" yes |" if task in tasks(family) else " |" for task in _TASKS))
    lines.append("| static models | yes | yes | | | | |")
    lines += ["", "| device | encoders | generators | static models | `--quantization` |", "|---|---|---|---|---|"]
    for device in _COMPUTING:
        runners = importlib.import_module(f"fastqps.devices.{device}").RUNNERS
        formats = ", ".join(f"`{name}`" for name in QUANTIZATIONS if name not in _NOT_ON.get(device, ()))
        serves = [_served(runners, kind) for kind in (ENCODE, DECODE, ENCODE)]
        lines.append(f"| `{device}` | {' | '.join(serves)} | {formats}; static models are read as they are stored |")
    return "\n".join(lines) + "\n"


def tasks(family: EncoderFamily | DecoderFamily) -> set[str]:
    """The tasks of a family's checkpoints."""
    if isinstance(family, DecoderFamily):
        return {"generate"} | (tasks(encoder_of(family)) if family.encodes else set())
    found = {"embed", "vector by token"}
    if family.read_head is not None:
        found |= {"classify", "token classify"}
    return found | ({"sparse"} if family.read_vocabulary_head is not None else set())


def written(page: str) -> str:
    """The page with the matrix between its marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + matrix() + END + rest.partition(END)[2]


def _served(runners: dict[StepKind, object], kind: StepKind) -> str:
    return "yes" if kind in runners else ""


if __name__ == "__main__":
    assert set(_COMPUTING) <= set(DEVICES)
    PAGE.write_text(written(PAGE.read_text()))
