"""generation_config.json: every key of transformers is honoured, irrelevant or refused, and refusals name the key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tr
from decoders import write_byte_tokenizer, write_decoder

from fastqps import Engine
from fastqps.models import ModelCard, ModelError, load_card
from fastqps.models.files.generation_keys import generation_keys
from fastqps.models.files.keys import UnlistedKeyError

pytestmark = pytest.mark.compute

FAST = "PreTrainedTokenizerFast"

REFUSED: dict[str, Any] = {
    "num_beams": 4,
    "num_beam_groups": 2,
    "diversity_penalty": 0.5,
    "constraints": [{"token_ids": [3]}],
    "force_words_ids": [[3]],
    "penalty_alpha": 0.6,
    "dola_layers": "high",
    "is_assistant": True,
    "num_return_sequences": 2,
    "max_time": 5.0,
    "stop_strings": ["."],
    "encoder_repetition_penalty": 1.2,
    "exponential_decay_length_penalty": [5, 1.1],
    "encoder_no_repeat_ngram_size": 2,
    "forced_bos_token_id": 0,
    "sequence_bias": [[[3], -1.0]],
    "guidance_scale": 1.5,
    "watermarking_config": {"bias": 2.0},
    "token_healing": True,
}
# What transformers fills in or computes the same tokens with.
HARMLESS: dict[str, Any] = {
    "max_new_tokens": 3,
    "early_stopping": True,
    "length_penalty": 2.0,
    "renormalize_logits": True,
    "remove_invalid_values": True,
    "use_cache": False,
    "prompt_lookup_num_tokens": 2,
    "temperature": 0.3,
    "top_k": 3,
    "top_p": 0.5,
    "min_p": 0.2,
    "typical_p": 0.9,
    "epsilon_cutoff": 3e-4,
    "bos_token_id": 7,
    "pad_token_id": 8,
    "return_dict_in_generate": False,
    "output_scores": False,
}


def write(path: Path, **options: Any) -> None:
    (path / "generation_config.json").write_text(json.dumps(options))


def card(path: Path, **options: Any) -> ModelCard:
    write(path, **options)
    return load_card(str(path), 40, max_output_tokens=30)


def warnings(path: Path, **options: Any) -> list[str]:
    """Those of the options alone: the checkpoint's short limit and its lack of a tokenizer have theirs."""
    others = card(path).warnings
    return [said for said in card(path, **options).warnings if said not in others]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    write_decoder(path, "llama", eos_token_id=5)
    return path


def test_every_key_of_transformers_has_a_rule() -> None:
    keys = tr.GenerationConfig().to_dict()
    assert len(keys) > 60
    assert generation_keys(keys).unknown == ()
    assert set(REFUSED) < set(keys) and set(HARMLESS) < set(keys)


def test_every_refused_key_is_in_the_table() -> None:
    """Whatever no rule calls honoured is either irrelevant, with any value, or refused and listed above."""
    anything = {"a": "value that no rule calls neutral"}
    for key in tr.GenerationConfig().to_dict():
        try:
            found = generation_keys({key: anything})
        except ModelError:
            assert key in REFUSED
        else:
            assert key not in REFUSED and found.unknown == ()


@pytest.mark.parametrize("key", REFUSED)
def test_a_refusal_names_the_key(key: str, model: Path) -> None:
    with pytest.raises(ModelError, match=rf"generation_config\.json: {key} .* is not supported: ") as error:
        card(model, **{key: REFUSED[key]})
    assert str(model) in str(error.value)


def test_what_transformers_writes_and_defaults_to_is_accepted(model: Path) -> None:
    written = tr.GenerationConfig(eos_token_id=9).to_dict()
    defaults = {**tr.GenerationConfig._get_default_generation_params(), "repetition_penalty": 1}
    neutral = {"suppress_tokens": [], "bad_words_ids": [], "stop_strings": [], "guidance_scale": 1, "penalty_alpha": 0}
    options = {**written, **defaults, **neutral, "eos_token_id": 9}
    assert card(model, **options).eos_ids == (9,)
    assert warnings(model, **options) == []


@pytest.mark.parametrize("key", HARMLESS)
def test_an_irrelevant_key_changes_no_tokens_of_transformers(key: str, model: Path) -> None:
    write(model, **{"eos_token_id": 5, "pad_token_id": 0, key: HARMLESS[key]})
    theirs = tr.AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager").float().eval()
    prompt = [11, 3, 40, 7]
    with torch.inference_mode():
        ids = torch.tensor([prompt])
        expected = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12)[0, 4:].tolist()
    engine = Engine(str(model), dtype="float32", max_input_tokens=40, max_output_tokens=30)
    assert list(engine.generate([prompt], max_tokens=12)[0].token_ids) == expected


def test_ignored_sampling_defaults_are_a_warning(model: Path) -> None:
    assert warnings(model, do_sample=False, temperature=0.6) == []
    (said,) = warnings(model, do_sample=True, temperature=0.6, top_p=0.95, top_k=None)
    assert "do_sample true (temperature 0.6, top_p 0.95) is ignored" in said


def test_unknown_keys_are_a_warning(model: Path) -> None:
    (said,) = warnings(model, chat_format="chatml", temperatur=0.7)
    assert "keys that fastqps does not know and that have no effect: chat_format, temperatur." in said
    (said,) = warnings(model, **{f"key_{i}": i for i in range(20)})
    assert "key_7 and 12 more." in said


def test_code_cannot_read_an_irrelevant_key() -> None:
    with pytest.raises(UnlistedKeyError):
        generation_keys({"max_new_tokens": 4}).get("max_new_tokens")


@pytest.mark.parametrize(
    "generation", [None, {}, {"eos_token_id": None}, {"eos_token_id": 9}, {"eos_token_id": [8, 9]}]
)
@pytest.mark.parametrize("config", [{}, {"eos_token_id": 7}])
def test_the_tokens_that_end_a_text(tmp_path: Path, generation: dict[str, Any] | None, config: dict[str, Any]) -> None:
    """As in transformers: a generation_config.json hides config.json's, and the tokenizer's name ends no text."""
    write_decoder(tmp_path, "llama")
    write_byte_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": FAST, "eos_token": "<end>"}))
    path, ends = tmp_path / "config.json", tmp_path / "generation_config.json"
    others = {key: value for key, value in json.loads(path.read_text()).items() if key != "eos_token_id"}
    path.write_text(json.dumps(others | config))
    ends.unlink(missing_ok=True)
    if generation is not None:
        ends.write_text(json.dumps(generation))
    theirs = tr.AutoModelForCausalLM.from_pretrained(tmp_path).generation_config.eos_token_id
    found = load_card(str(tmp_path), 40, max_output_tokens=30)
    assert found.eos_ids == tuple([theirs] if isinstance(theirs, int) else theirs or ())
    assert ("No eos_token_id ends a text" in " ".join(found.warnings)) == (not found.eos_ids)
