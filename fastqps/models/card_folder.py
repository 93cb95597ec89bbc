"""A model's card in a folder of its own, with the tokenizer's and the configuration's files and without weights.

That is all that an edge needs. The card's version is the whole checkpoint's, weights included: only servers that serve
that version answer.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.files import deciding_files
from fastqps.models.files.reading import has_file, open_regular, read_object
from fastqps.version import __version__

CARD_FILE = "fastqps-card.json"
_FORMAT = 1
_WEIGHTS = ".safetensors"
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class CardFolder:
    """``card`` has its paths relative to ``root``. ``digests``: SHA-256 of each file beside the card, by its name."""

    root: Path
    card: ModelCard
    digests: Mapping[str, str]

    def stamp(self) -> str:
        """Stays the same while none of the files is written or replaced."""
        return deciding_files.stamp([self.root / CARD_FILE, *(self.root / name for name in self.digests)])

    def digest(self) -> str:
        """The version of the model. ``ModelError`` if a file is another one than when the card was written."""
        for name, digest in self.digests.items():
            path = self.root / name
            with open_regular(path) as stream:
                current = hashlib.file_digest(stream, "sha256").hexdigest()
            if current != digest:
                raise ModelError(
                    f"{path}: it has changed since {CARD_FILE} was written: its SHA-256 begins with {current[:12]}, "
                    f"not {digest[:12]}; write both again: fastqps card"
                )
        return self.card.version

    def served(
        self,
        name: str | None,
        max_input_tokens: int | None,
        max_output_tokens: int | None,
        told: Mapping[str, bool],
    ) -> ModelCard:
        """The card for the arguments of ``load_card``. ``told``: the flags with which a card is written, and whether
        they say something else now. ``ModelError`` if they do, or if a file has changed."""
        stamp, card = self.stamp(), self.card
        self.digest()
        limit = card.max_input_tokens
        for flag, differs in {"--max-input-tokens": max_input_tokens not in (None, limit), **told}.items():
            if differs:
                has = f" (it takes {limit})" if flag == "--max-input-tokens" else ""
                raise ModelError(
                    f"{self.root}: {CARD_FILE} was written without this {flag}{has}; write it again: fastqps card "
                    f"MODEL --out DIR {flag} ..."
                )
        return dataclasses.replace(
            card,
            name=name or card.name,
            path=str(self.root),
            tokenizer=str(self.root / card.tokenizer) if card.tokenizer else "",
            max_output_tokens=min(card.max_output_tokens, max_output_tokens or card.max_output_tokens),
            stamp=stamp,
        )


def open_card(root: Path) -> CardFolder | None:
    """The folder's card as it was written; None where there is none. ``ModelError`` if it cannot be used."""
    path = root / CARD_FILE
    if not has_file(path):
        return None
    document = read_object(path)
    try:
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {_FORMAT}")
        card = ModelCard.from_json(json.dumps(document["card"]))
        digests = {str(name): str(digest) for name, digest in document["files"].items()}
        if outside := next((name for name in digests if not _is_inside(name)), None):
            raise ValueError(f"{outside!r} leads out of the folder")
        if card.tokenizer and card.tokenizer not in digests:
            raise ValueError(f"it has no digest of its tokenizer, {card.tokenizer!r}")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{path}: it cannot be used ({type(error).__name__}: {error}); fastqps {document.get('fastqps', '?')} has "
            f"written it, and this is {__version__}: write it again: fastqps card"
        ) from error
    if missing := next((name for name in digests if not has_file(root / name)), None):
        raise ModelError(f"{root / missing}: it is missing, and {CARD_FILE} in this folder was written with it")
    return CardFolder(root, card, digests)


def write_card(card: ModelCard, files: Sequence[Path], out: Path) -> None:
    """Writes ``card`` into the folder ``out``, which is made unless it is there and empty, with those of ``files``, all
    that decide the model's answers, that are no weights. Raises ``ModelError``."""
    root = Path(card.path)
    tokenizer = Path(card.tokenizer).relative_to(root).as_posix() if card.tokenizer else ""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise ModelError(f"{out}: it is not empty; name a new folder with --out")
        copied = [path for path in files if path.suffix != _WEIGHTS]
        digests = {path.relative_to(root).as_posix(): _copy(path, out / path.relative_to(root)) for path in copied}
        fields = dataclasses.asdict(dataclasses.replace(card, path="", adapter="", stamp="", tokenizer=tokenizer))
        text = json.dumps({"format": _FORMAT, "fastqps": __version__, "files": digests, "card": fields}, indent=1)
        (out / CARD_FILE).write_text(text + "\n")  # last: a folder without it is none of ours
    except OSError as error:
        raise ModelError(f"{error.filename or out}: {error.strerror}") from error


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _copy(path: Path, to: Path) -> str:
    """Copies a file, and returns its SHA-256."""
    total = hashlib.sha256()
    to.parent.mkdir(parents=True, exist_ok=True)
    with open_regular(path) as source, to.open("wb") as copy:
        while block := source.read(_BLOCK_BYTES):
            total.update(block)
            copy.write(block)
    return total.hexdigest()
