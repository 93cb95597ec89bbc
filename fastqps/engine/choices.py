"""An answer that is one of given texts: the Engine's side of csrc/core/choice_tree.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fastqps._core import CHOICE_TEXTS_MAX, ChoiceTree
from fastqps.api.prediction import ChoiceScore, Generation
from fastqps.models.card import ModelCard
from fastqps.models.tokenizers.tokenizer import Tokenizer


class Choices(NamedTuple):
    """The texts of a request, and the tree of their tokens."""

    texts: Sequence[str]
    tree: ChoiceTree

    @classmethod
    def of(cls, texts: Sequence[str], tokenizer: Tokenizer | None, card: ModelCard) -> Choices:
        """``ValueError`` for texts that cannot be chosen from."""
        if tokenizer is None:
            raise ValueError(f"{card.path} has no tokenizer.json: choices mean nothing without it")
        if not 1 <= len(texts) <= CHOICE_TEXTS_MAX:
            raise ValueError(f"choices: {len(texts)} texts, must be 1 to {CHOICE_TEXTS_MAX}")
        most = card.max_output_tokens
        ids = [tokenizer.encode_fixed(text.encode(), []).ids for text in texts]
        for number, own in enumerate(ids):
            if not 1 <= len(own) <= most:
                raise ValueError(f"choices: text {number} has {len(own)} tokens, must have 1 to {most}")
            if ids.index(own) < number:
                raise ValueError(f"choices: texts {ids.index(own)} and {number} are the same tokens")
        tree = ChoiceTree(ids)
        if tree.rows > most:
            raise ValueError(f"choices: the texts differ in {tree.rows} places, at most {most}")
        return cls(texts, tree)

    def options(self) -> dict[str, Any]:
        """Those of ``DecodeBatch.admit`` for its script."""
        top = self.tree.targets_max
        return {"script": self.tree.script(), "max_tokens": self.tree.rows, "top_logprobs": top, "logprobs": True}

    def answer(
        self, firsts: Sequence[float], each: Sequence[Sequence[float]], temperature: float, seed: int
    ) -> Generation:
        """The text that is chosen by the log-probabilities of the tree's targets: of each row its first, and all."""
        chosen, ids, logprobs, scores = self.tree.answer(firsts, [x for row in each for x in row], temperature, seed)
        of_texts = [ChoiceScore(logprob, score) for logprob, score in scores]
        return Generation(self.texts[chosen], ids, "stop", logprobs, choice_scores=of_texts)
