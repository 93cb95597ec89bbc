"""The keys of generation_config.json: which of them are honoured, irrelevant or refused, as transformers has them.

tests/models/test_generation_keys.py compares these rules with transformers' ``GenerationConfig``.
"""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.keys import Keys, Refused, Rules, rules


@dataclass(frozen=True)
class LogitOptions:
    """Options of transformers' ``GenerationConfig`` that change logits before a token is chosen from them.

    Every default changes nothing. Token ids are the vocabulary's. A request may replace the first four.
    """

    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    min_length: int = 0  # tokens of prefix, prompt and answer before which no text ends
    min_new_tokens: int = 0  # the same of the answer
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    forced_eos_token_id: tuple[int, ...] = ()  # at the limit of an answer

    @property
    def forced(self) -> tuple[int, ...]:
        """The forced tokens that are not suppressed as well."""
        return tuple(id for id in self.forced_eos_token_id if id not in self.suppress_tokens)


def float32(value: float) -> float:
    """Rounds a number to float32: to 0 or infinity, if it is too small or too large."""
    return ctypes.c_float(value).value


GENERATION_CONFIG = "generation_config.json"
_COUNT_MAX = (1 << 31) - 1  # no text has more tokens
_LISTED_MAX = 10_000  # token ids of all lists together: they are part of the card, whose place in memory is bounded
_NO = (False,)
_ONE = (1, 1.0)
_ZERO = (0, 0.0)

# How to sample is the request's decision; these defaults of transformers are read to be named in a warning.
_SAMPLING = (
    *("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p"),
    *("epsilon_cutoff", "eta_cutoff"),
)
_RULES = rules(
    honoured=("eos_token_id", "do_sample", *_SAMPLING, *vars(LogitOptions())),
    irrelevant=(
        # The request and the server's limits decide the length of an answer.
        *("max_length", "max_new_tokens"),
        # Beam search alone reads these two, and it is refused.
        *("early_stopping", "length_penalty"),
        # Neither the order of logits nor which of them can be chosen depends on these.
        *("renormalize_logits", "remove_invalid_values"),
        # How the same tokens are computed: caches, compilation, drafts that the model verifies.
        *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "prefill_chunk_size", "low_memory"),
        *("compile_config", "disable_compile", "continuous_batching_config", "use_mtp", "speculation_type"),
        *("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
        *("prompt_lookup_num_tokens", "max_matching_ngram_size", "assistant_early_exit"),
        *("assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight"),
        # These choose the Python objects that a call returns.
        *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate"),
        # Tokens that pad batches, begin texts (which the tokenizer does) and begin those of encoder-decoders.
        *("pad_token_id", "bos_token_id", "decoder_start_token_id"),
        *("_from_model_config", "_commit_hash", "transformers_version"),
    ),
    refused={
        "num_beams": Refused(_ONE, "beam search is not computed"),
        "num_beam_groups": Refused(_ONE, "beam search is not computed"),
        "diversity_penalty": Refused(_ZERO, "beam search is not computed"),
        "constraints": Refused(([],), "constrained beam search is not computed"),
        "force_words_ids": Refused(([],), "constrained beam search is not computed"),
        "penalty_alpha": Refused(_ZERO, "contrastive search is not computed"),
        "dola_layers": Refused((), "the logits of the last layer alone are computed"),
        "is_assistant": Refused(_NO, "a model that drafts for another one ends its texts early"),
        "num_return_sequences": Refused(_ONE, "a request has one answer"),
        "max_time": Refused((), "requests have deadlines"),
        "stop_strings": Refused(([],), "requests have stop strings of their own"),
        "encoder_repetition_penalty": Refused(_ONE, "a prompt's tokens have no penalty of their own"),
        "exponential_decay_length_penalty": Refused((), "logits are not changed by an answer's length"),
        "encoder_no_repeat_ngram_size": Refused(_ZERO, "an answer may repeat what the prompt says"),
        "forced_bos_token_id": Refused((), "no first token is forced"),
        "sequence_bias": Refused(({}, []), "logits are not biased"),
        "guidance_scale": Refused(_ONE, "classifier-free guidance is not computed"),
        "watermarking_config": Refused((), "texts are not watermarked"),
        "token_healing": Refused(_NO, "prompts are taken as they are"),
    },
)

# The same keys in config.json, where transformers looks for them if there is no generation_config.json. Requests have
# options of their own for the first group; in the second, beams and scores that nobody asks for change nothing.
_OLD_SAMPLING = ("do_sample", "temperature", "top_k", "top_p", "max_length", "max_new_tokens")
_OLD_IRRELEVANT = (
    *("length_penalty", "early_stopping", "num_return_sequences", "return_dict_in_generate", "output_scores"),
    *("assistant_confidence_threshold", "assistant_lookbehind", "target_lookbehind", "num_assistant_tokens"),
    *("num_assistant_tokens_schedule", "remove_invalid_values"),
)
_SEARCH = ("num_beams", "num_beam_groups", "diversity_penalty", "sequence_bias", "exponential_decay_length_penalty")
_ENCODERS = ("encoder_repetition_penalty", "encoder_no_repeat_ngram_size", "forced_bos_token_id")
_OLD_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    **{name: ([],) if default == () else (default,) for name, default in vars(LogitOptions()).items()},
    **{key: _RULES.refused[key].neutral for key in (*_SEARCH, *_ENCODERS)},
    "repetition_penalty": _ONE,
    "forced_eos_token_id": (),
    "force_bos_token_to_be_generated": _NO,
    "typical_p": _ONE,
    "epsilon_cutoff": _ZERO,
    "eta_cutoff": _ZERO,
}
GENERATION_KEYS = (*_OLD_SAMPLING, *_OLD_IRRELEVANT, *_OLD_NEUTRAL)
# Of config.json, by whether the checkpoint has a generation_config.json, which then alone says how to generate.
GENERATION_RULES: Mapping[bool, Rules] = {
    False: rules(
        irrelevant=(*_OLD_SAMPLING, *_OLD_IRRELEVANT),
        refused={key: Refused(neutral, "it changes what is generated") for key, neutral in _OLD_NEUTRAL.items()},
    ),
    True: rules(irrelevant=GENERATION_KEYS),
}


def generation_keys(values: Mapping[str, Any]) -> Keys:
    """The object of generation_config.json; ``ModelError`` for values that are refused."""
    return Keys(GENERATION_CONFIG, values, _RULES)


def read_logit_options(config: Keys, vocab: int) -> LogitOptions | None:
    """The options of generation_config.json, for ``vocab`` token ids; None if none has an effect.

    ``ModelError`` names the key whose value cannot be used.
    """
    options_by_key: dict[str, Any] = {}
    for key, default in vars(LogitOptions()).items():
        value = config.get(key)
        if value is None:
            continue
        if isinstance(default, float):
            _check(key, value, _number(value) and 0 < float32(value) < math.inf, "a finite number above 0")
            options_by_key[key] = float(value)
        elif isinstance(default, int):
            _check(key, value, type(value) is int and value >= 0, "a whole number, at least 0")
            options_by_key[key] = min(value, _COUNT_MAX)
        elif key == "bad_words_ids":
            fits = isinstance(value, list) and all(word and _ids(word, vocab) for word in value)
            _check(key, value, fits, f"a list of lists of token ids below {vocab}")
            options_by_key[key] = tuple(dict.fromkeys(map(tuple, value)))
        else:
            ids = [value] if key == "forced_eos_token_id" and type(value) is int else value
            _check(key, value, _ids(ids, vocab), f"a list of token ids below {vocab}")
            options_by_key[key] = tuple(dict.fromkeys(ids))
    if "min_new_tokens" in options_by_key:  # also if it is 0: transformers overrides the other one by it
        options_by_key["min_length"] = 0
    options = LogitOptions(**options_by_key)
    forced = options.forced_eos_token_id
    if forced and set(forced) <= set(options.suppress_tokens):
        raise ModelError(f"{GENERATION_CONFIG}: suppress_tokens forbid all of forced_eos_token_id {list(forced)}")
    listed = sum(map(len, (options.suppress_tokens, options.begin_suppress_tokens, forced, *options.bad_words_ids)))
    if listed > _LISTED_MAX:
        raise ModelError(
            f"{GENERATION_CONFIG}: suppress_tokens, begin_suppress_tokens, bad_words_ids and forced_eos_token_id hold "
            f"{listed} token ids; at most {_LISTED_MAX} are supported"
        )
    return None if options == LogitOptions() else options


def generation_warnings(config: Keys) -> tuple[str, ...]:
    """Warnings for the operator: unknown keys, and sampling options that requests have to give."""
    warnings = []
    if config.get("do_sample"):
        options = ", ".join(f"{key} {config[key]}" for key in _SAMPLING if config.get(key) is not None)
        warnings.append(
            f"{GENERATION_CONFIG}: do_sample true{f' ({options})' if options else ''} is ignored: a request without a "
            "temperature gets the likeliest tokens, and over OpenAI's API temperature 1."
        )
    return (*warnings, *config.warnings())


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _ids(value: Any, vocab: int) -> bool:
    return isinstance(value, list) and all(type(i) is int and 0 <= i < vocab for i in value)


def _check(key: str, value: Any, fits: bool, must: str) -> None:
    if not fits:
        raise ModelError(f"{GENERATION_CONFIG}: {key} {json.dumps(value)[:200]} must be {must}")
