"""LogitScore: a score out of the logits that a decoder gives for one or two tokens behind a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.keys import read_keys
from fastqps.models.sentence_transformers.keys import LOGIT_SCORE


@dataclass(frozen=True)
class LogitScore:
    """The tokens: a score is the first one's logit, less the second one's where there is one."""

    true_id: int
    false_id: int | None = None


def read_logit_score(path: Path) -> LogitScore:
    """The tokens that the config.json of a LogitScore names. ``ModelError`` for what is not supported."""
    config = read_keys(path, LOGIT_SCORE)
    config.check_known()
    ids: list[Any] = [config.get(key) for key in ("true_token_id", "false_token_id")]
    for key, id in zip(("true_token_id", "false_token_id"), ids, strict=True):
        if id is None and key == "true_token_id":
            raise ModelError(f"{path}: true_token_id is missing; it names the token whose logit is the score")
        if id is not None and (type(id) is not int or id < 0):
            raise ModelError(f"{path}: {key} {id!r} is no token id")
    return LogitScore(*ids)
