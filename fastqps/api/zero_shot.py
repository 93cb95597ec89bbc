"""Classification by labels that the model was not trained for: does the text entail that it is about the label?

Shared by both clients and the engine. The scores are those of transformers' pipeline for zero-shot classification.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .prediction import Label

HYPOTHESIS = "This example is {}."


def pairs(texts: Sequence[str], labels: Sequence[str], hypothesis: str) -> list[tuple[str, str]]:
    """A pair for each text and label, text by text. Raises TypeError and ValueError for what cannot be asked."""
    if isinstance(texts, str) or isinstance(labels, str):
        raise TypeError("zero-shot classification wants a list of texts and a list of labels")
    if not labels:
        raise ValueError("labels: none, at least 1")
    if hypothesis.format(labels[0]) == hypothesis:
        raise ValueError(f"hypothesis: {hypothesis!r} has no {{}} for the label")
    return [(text, hypothesis.format(label)) for text in texts for label in labels]


def entailment(names: Sequence[str]) -> int:
    """The place of the model's label that says that the first text entails the second. Raises ValueError without it."""
    found = [i for i, name in enumerate(names) if name.lower().startswith("entail")]
    if not found:
        raise ValueError(f"the model's labels are {', '.join(names)}, and none of them begins with entail")
    return found[0]


def answers(
    logits: npt.NDArray[np.float32], labels: Sequence[str], entails: int, multi_label: bool
) -> list[list[Label]]:
    """The labels of each text, best first. logits: [texts × labels, the model's labels], ``entails`` one of them.

    A label's score is its share of all labels, or with ``multi_label`` of its own entailment and contradiction.
    """
    grouped = logits.reshape(-1, len(labels), logits.shape[1])
    if multi_label or len(labels) == 1:
        contradicts = -1 if entails == 0 else 0
        scores = _softmax(grouped[:, :, [contradicts, entails]], axis=2)[:, :, 1]
    else:
        scores = _softmax(grouped[:, :, entails], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")
    return [[Label(labels[i], float(row[i]), int(i)) for i in best] for row, best in zip(scores, order, strict=True)]


def _softmax(x: npt.NDArray[np.float32], axis: int) -> npt.NDArray[np.float32]:
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=axis, keepdims=True))
