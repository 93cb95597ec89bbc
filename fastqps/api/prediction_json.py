"""Answers as JSON, the same from a server and from the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StatusCode
from .prediction import (
    ChoiceScore,
    Chunk,
    Entity,
    Generation,
    Prediction,
    PredictionError,
    SparseEmbedding,
    TopLogprobs,
    Usage,
)


def prediction_json(found: Prediction | PredictionError) -> dict[str, Any]:
    """One item of a server's answer."""
    if isinstance(found, PredictionError):
        return {"error": {"code": StatusCode(found.error.code).name, "message": found.error.message}}
    shown: dict[str, Any] = {}
    if found.embedding is not None:
        shown["embedding"] = _floats(found.embedding)
    if found.labels is not None:
        shown["labels"] = [{"name": label.name, "score": label.score} for label in found.labels]
    if found.multi is not None:
        shown["multi"] = [_floats(row) for row in found.multi]
    if found.entities is not None:
        shown["entities"] = entities_json(found.entities)
    if found.sparse is not None:
        shown["sparse"] = sparse_json(found.sparse)
    if found.generation is not None:
        shown |= generation_json(found.generation)
    elif found.usage is not None:
        shown |= _usage(found.usage)
    if found.timings is not None:
        shown["timings_us"] = found.timings
    return shown


def entities_json(found: Sequence[Entity]) -> list[dict[str, Any]]:
    """The entities of one text."""
    return [{"label": one.label, "score": one.score, "start": one.start, "end": one.end} for one in found]


def sparse_json(found: SparseEmbedding) -> dict[str, Any]:
    """The weights of one text."""
    return {"ids": found.ids.tolist(), "weights": _floats(found.weights), "active": found.active}


def generation_json(found: Generation) -> dict[str, Any]:
    """A text that was made, by a server or by the engine."""
    shown: dict[str, Any] = {"text": found.text, "token_ids": found.token_ids, "finish_reason": found.finish_reason}
    _show_scores(found, shown)
    if found.usage is not None:
        shown |= _usage(found.usage, made=True)
    if found.other_choices:
        shown["other_choices"] = [generation_json(each) for each in found.other_choices]
    return shown


def _show_scores(found: Generation | Chunk, shown: dict[str, Any]) -> None:
    if found.logprobs is not None:
        shown["logprobs"] = _floats(found.logprobs)
    if found.top_logprobs is not None:
        shown["top_logprobs"] = _likeliest(found.top_logprobs)
    if (prompt := found.prompt_logprobs) is not None:
        shown["prompt_logprobs"] = {"token_ids": prompt.token_ids, "logprobs": _floats(prompt.logprobs)}
        if prompt.top_logprobs is not None:
            shown["prompt_logprobs"]["top_logprobs"] = _likeliest(prompt.top_logprobs)
    if found.choice_scores is not None:
        shown["choice_scores"] = [_score(each) for each in found.choice_scores]


def _likeliest(found: TopLogprobs) -> list[list[dict[str, Any]]]:
    return [[_likely(*likely) for likely in each] for each in found]


def _likely(id: int, logprob: float) -> dict[str, Any]:
    return {"id": id, "logprob": _floats([logprob])[0]}


def _score(found: ChoiceScore) -> dict[str, float]:
    logprob, score = _floats([found.logprob, found.score])
    return {"logprob": logprob, "score": score}


def chunk_json(found: Chunk) -> dict[str, Any]:
    """A piece of a text that is being made."""
    shown: dict[str, Any] = {"text": found.text, "token_ids": found.token_ids}
    if found.choice:
        shown["choice"] = found.choice
    _show_scores(found, shown)
    if found.finish_reason is not None:
        shown["finish_reason"] = found.finish_reason
    if found.usage is not None:
        shown |= _usage(found.usage, made=True)
    return shown


def answer_json(
    found: NDArray[np.float32] | list[tuple[str, float]] | list[Entity] | SparseEmbedding,
) -> dict[str, Any]:
    """One item of the engine's answer."""
    if isinstance(found, SparseEmbedding):
        return {"sparse": sparse_json(found)}
    if isinstance(found, np.ndarray) and found.ndim > 1:
        return {"multi": [_floats(row) for row in found]}
    if isinstance(found, np.ndarray):
        return {"embedding": _floats(found)}
    labels = [{"name": one[0], "score": one[1]} for one in found if not isinstance(one, Entity)]
    return {"labels": labels} if labels else {"entities": entities_json([e for e in found if isinstance(e, Entity)])}


def _usage(found: Usage, made: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = {"input_tokens": found.input_tokens}
    if made:
        shown["output_tokens"] = found.output_tokens
    if found.truncated:
        shown["truncated"] = True
    if found.truncated_at:
        shown["truncated_at"] = found.truncated_at
    return shown


def _floats(vector: Any) -> list[float]:
    """The shortest decimal numbers that mean the same float32."""
    return [float(str(value)) for value in np.asarray(vector, np.float32)]
