"""Weights in pickles, which are never read, because reading one can run any code."""

from __future__ import annotations

from collections.abc import Iterable

_ENDINGS = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_WAY_OUT = (
    "load it with transformers where you trust it, and save_pretrained writes safetensors; on the hub, a pull request "
    "of the repository may have them (hub:OWNER/NAME@refs/pr/N)"
)


def pickled(names: Iterable[str]) -> str:
    """The end of a sentence about a folder without safetensors that has weights in a pickle; "" if it has none.

    ``names``: of the files in the folder.
    """
    first = min((name for name in names if name.endswith(_ENDINGS) and name != "training_args.bin"), default="")
    return f"{first} is never read, because such a file can run any code; {_WAY_OUT}" if first else ""
