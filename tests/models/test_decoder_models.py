"""Which generators are served and which are refused, what their cards say, and text in and out of them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import write_checkpoint
from decoders import DECODERS, VOCAB, write_byte_tokenizer, write_decoder
from published_configs import GENERATORS as PUBLISHED_GENERATORS

from fastqps import Engine
from fastqps.cli import main
from fastqps.devices import make_runner
from fastqps.engine.generator import Generator
from fastqps.models import ModelCard, ModelError, load_card
from fastqps.models.card import LimitError
from fastqps.models.families import FAMILIES, GENERATORS, DecoderFamily
from fastqps.models.families.nearest import NEAREST

pytestmark = pytest.mark.compute


def edit(path: Path, **changes: Any) -> None:
    """Sets keys of a JSON file; None takes one away."""
    found = {**(json.loads(path.read_text()) if path.is_file() else {}), **changes}
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))


def test_card(tmp_path: Path) -> None:
    write_decoder(tmp_path, "qwen3", eos_token_id=5)
    card = load_card(str(tmp_path), 40, max_output_tokens=30)
    assert ModelCard.from_json(card.to_json()) == card
    assert (card.task, card.family, card.dimensions, card.tokenizer) == ("generate", "qwen3", 0, "")
    assert (card.max_input_tokens, card.max_output_tokens, card.vocab_size, card.eos_ids) == (40, 30, VOCAB, (5,))
    assert card.kv_values == 2 * 2 * 2 * 16, "layers, keys and values, heads of them, head size"
    assert replace(card, prefix_ids=(1,) * 90).kv_positions == 40 + 30, "the prefix lies elsewhere"
    assert load_card(str(tmp_path), 512, max_output_tokens=30).max_input_tokens == 128 - 30, "the context bounds both"
    edit(tmp_path / "tokenizer_config.json", model_max_length=64)
    assert load_card(str(tmp_path), 512, max_output_tokens=30).max_input_tokens == 64 - 30
    with pytest.raises(ModelError, match="leave no room for a prompt"):
        load_card(str(tmp_path), max_output_tokens=64)


@pytest.mark.parametrize(
    ("context", "asked", "limits"),  # asked: of prompts; limits: of prompts and answers
    [
        (8192, None, (512, 1024)),
        (1024, None, (512, 512)),
        (512, None, (384, 128)),
        (200, None, (100, 100)),
        (2, None, (1, 1)),
        (2048, 1500, (1500, 548)),
        (2048, 2000, (1920, 128)),
    ],
)
def test_answers_are_as_long_as_the_context_allows(
    context: int, asked: int | None, limits: tuple[int, int], tmp_path: Path
) -> None:
    write_decoder(tmp_path, "qwen3", eos_token_id=5)
    edit(tmp_path / "config.json", max_position_embeddings=context)
    card = load_card(str(tmp_path), asked)
    assert (card.max_input_tokens, card.max_output_tokens) == limits


def warnings_of_eos(path: Path) -> list[str]:
    card = load_card(str(path), 20, max_output_tokens=20)
    return [said for said in card.warnings if "eos_token" in said]


def test_tokens_that_end_no_answer(tmp_path: Path) -> None:
    """Which do is compared with transformers in test_generation_keys.py."""
    write_decoder(tmp_path, "llama", vocab_size=300)
    write_byte_tokenizer(tmp_path)
    edit(tmp_path / "tokenizer_config.json", eos_token="<end>")
    before = load_card(str(tmp_path), 20, max_output_tokens=20).version
    edit(tmp_path / "generation_config.json", eos_token_id=[257, 300])
    beyond, *others = warnings_of_eos(tmp_path)
    assert beyond == "eos_token_id 300 never ends a text: the vocabulary has 300 ids." and not others
    edit(tmp_path / "generation_config.json", eos_token_id=9)
    (differs,) = warnings_of_eos(tmp_path)
    assert differs.startswith("The tokenizer's eos_token, id 257, does not end a text")
    assert load_card(str(tmp_path), 20, max_output_tokens=20).version != before, "other ends, another version"
    for wrong in (["<end>"], -1, 1 << 31):
        edit(tmp_path / "generation_config.json", eos_token_id=wrong)
        with pytest.raises(ModelError, match="neither a token id nor a list"):
            load_card(str(tmp_path), 20, max_output_tokens=20)


@pytest.mark.parametrize(
    ("kind", "dropped", "buffers"),
    [
        ("gpt2", "transformer.", {"h.1.attn.bias": torch.ones(1, 1, 8, 8)}),
        ("opt", "model.", {}),
        (
            "gpt_neox",
            "",
            {
                "gpt_neox.layers.1.attention.bias": torch.ones(1, 1, 8, 8, dtype=torch.bool),
                "gpt_neox.layers.1.attention.masked_bias": torch.tensor(-1e9),
                "gpt_neox.layers.1.attention.rotary_emb.inv_freq": torch.ones(4),
            },
        ),
    ],
)
def test_files_of_old_generators(kind: str, dropped: str, buffers: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """As they were published: without a prefix, and with buffers among the weights."""
    from safetensors.torch import load_file, save_file

    write_decoder(tmp_path, kind)
    card, prompts = load_card(str(tmp_path), 40, max_output_tokens=8), [[5, 6, 7], [9]]
    want = Generator(card, dtype="float32").generate(prompts)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors = {name.removeprefix(dropped): tensor for name, tensor in tensors.items()}
    save_file(tensors | buffers, tmp_path / "model.safetensors")
    assert Generator(load_card(str(tmp_path), 40, max_output_tokens=8), dtype="float32").generate(prompts) == want


def test_tensors_that_change_nothing(tmp_path: Path) -> None:
    """Biases that are zero, and what older checkpoints keep of rotary positions."""
    from safetensors.torch import load_file, save_file

    write_decoder(tmp_path, "llama")
    card = load_card(str(tmp_path), 40, max_output_tokens=24)
    want = Generator(card, dtype="float32").generate([[1, 2, 3]])
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.layers.1.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    tensors["model.layers.1.self_attn.o_proj.bias"] = torch.zeros(32)
    save_file(tensors, tmp_path / "model.safetensors")
    assert Generator(card, dtype="float32").generate([[1, 2, 3]]) == want
    tensors["model.layers.1.self_attn.o_proj.bias"][3] = 0.5
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"'layers\.1\.self_attn\.o_proj\.bias', for which"):
        Generator(card, dtype="float32")


@pytest.mark.parametrize(
    ("options", "prefix", "lower", "said"),
    [
        ({"max_output_tokens": 128}, "", ("max_output_tokens",), "of 128 positions; at most 127 do$"),
        ({"max_output_tokens": 120}, "x" * 9, ("max_output_tokens", "prefix"), "of 128 positions; at most 117 do$"),
        ({"max_output_tokens": 200}, "x" * 9, ("max_output_tokens",), "of 128 positions; at most 127 do$"),
        ({"max_output_tokens": 9}, "x" * 127, ("prefix",), "a prefix of 128 tokens .* of 128 positions$"),
    ],
)
def test_limits_that_leave_no_room(
    tmp_path: Path, options: dict[str, int], prefix: str, lower: tuple[str, ...], said: str
) -> None:
    write_decoder(tmp_path, "llama", vocab_size=300)
    write_byte_tokenizer(tmp_path)
    with pytest.raises(LimitError, match=said) as caught:
        load_card(str(tmp_path), prefix_text=prefix, **options)
    assert caught.value.lower == lower
    assert load_card(str(tmp_path), max_output_tokens=127).max_input_tokens == 1
    assert load_card(str(tmp_path), max_output_tokens=117, prefix_text="x" * 9).max_input_tokens == 1


@pytest.mark.parametrize("name", ["generation_config.json", "tokenizer_config.json", "tokenizer.json"])
def test_files_that_are_no_objects(tmp_path: Path, name: str) -> None:
    write_decoder(tmp_path, "llama", vocab_size=300)
    (tmp_path / name).write_text("[1]")
    with pytest.raises(ModelError, match=f"{name}: not a JSON object$"):
        load_card(str(tmp_path), 40, max_output_tokens=24)


def test_weights_that_are_no_numbers(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_decoder(tmp_path, "llama")
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.norm.weight"][3] = torch.nan
    save_file(tensors, tmp_path / "model.safetensors")
    runner = make_runner("cpu", load_card(str(tmp_path), 40, max_output_tokens=24), 2, 64, dtype="float32")
    with pytest.raises(ModelError, match="NaN"):
        runner.warm_up()


def test_a_step_has_to_hold_a_prompt(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama")
    with pytest.raises(ModelError, match="a prompt of 40 tokens"):
        make_runner("cpu", load_card(str(tmp_path), 40, max_output_tokens=24), 2, 39)


def test_every_family_is_tested() -> None:
    assert {family for family, _ in DECODERS.values()} == {
        kind for kind, family in FAMILIES.items() if isinstance(family, DecoderFamily)
    }


def test_what_is_advised_is_served() -> None:
    """No type in the table is served, and the configuration of every checkpoint that it names is tested."""
    types = [kind for nearest in NEAREST.values() for kind in nearest]
    assert len(types) == len(set(types)) and not set(types) & FAMILIES.keys()
    assert {name for nearest in NEAREST.values() for name in nearest.values()} <= {
        each.name for each in PUBLISHED_GENERATORS
    }


def test_null_decoder(tmp_path: Path) -> None:
    """The device that computes nothing: one token that ends nothing, until the length."""
    write_decoder(tmp_path, "llama", eos_token_id=VOCAB // 2)
    card = load_card(str(tmp_path), 40, max_output_tokens=24)
    for in_flight in (1, 2):
        generator = Generator(card, device="null", max_running=3, steps_in_flight=in_flight)
        for length in (24, 1, 5):
            answers = generator.generate([[1, 2]] * 7, max_tokens=length)
            assert [a.token_ids for a in answers] == [[VOCAB // 2 + 1] * length] * 7
            assert {a.finish_reason for a in answers} == {"length"}


def test_threads_change_nothing(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama-5-heads")
    card, rng = load_card(str(tmp_path), 40, max_output_tokens=24), random.Random(0)
    prompts = [[rng.randrange(VOCAB) for _ in range(rng.randint(1, 40))] for _ in range(80)]
    before = torch.get_num_threads()
    try:
        tokens = [
            [
                answer.token_ids
                for answer in Generator(card, dtype="float32", threads=n, max_running=80).generate(prompts)
            ]
            for n in (1, 2, 3)
        ]
    finally:
        torch.set_num_threads(before)
    assert tokens[0] == tokens[1] == tokens[2]


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random llama that speaks in bytes."""
    path = tmp_path_factory.mktemp("speaker")
    write_decoder(path, "llama-gqa-tied", vocab_size=300, eos_token_id=257)
    write_byte_tokenizer(path)
    return path


def test_engine_generates_text(speaker: Path) -> None:
    import tokenizers

    engine = Engine(str(speaker), dtype="float32", max_input_tokens=40, max_output_tokens=40)
    package = tokenizers.Tokenizer.from_file(str(speaker / "tokenizer.json"))
    texts = ["hello", "a prompt", "naïve 🙂"]
    answers = engine.generate(texts, max_tokens=30)
    ids = engine.generate([package.encode(text).ids for text in texts], max_tokens=30)
    assert answers == ids
    for answer in answers:
        kept = answer.token_ids[:-1] if answer.finish_reason == "stop" else answer.token_ids
        assert answer.text == package.decode(kept)
        assert answer.usage is not None and answer.usage.output_tokens == len(answer.token_ids)
        assert answer.logprobs is None
    assert answers[0].usage is not None and answers[0].usage.input_tokens == len(package.encode("hello").ids)
    with pytest.raises(ValueError, match="prompt 0 has 51 tokens; the model takes 40"):
        engine.generate(["x" * 50])
    cut, short = engine.generate(["x" * 50, "x"], truncate=True)
    kept = package.encode("x" * 50).ids[: engine.card.max_input_tokens]
    assert cut.token_ids == engine.generate([kept])[0].token_ids
    assert [answer.usage and answer.usage.truncated for answer in (cut, short)] == [True, False]
    with pytest.raises(ValueError, match="call generate"):
        engine.predict(["text"])
    with pytest.raises(ValueError, match="call predict"):
        Engine("minilm").generate(["text"])


def test_stop_texts_and_ids(speaker: Path) -> None:
    engine = Engine(str(speaker), dtype="float32", max_input_tokens=40, max_output_tokens=40)
    whole = engine.generate(["hello"], max_tokens=30, ignore_eos=True)[0]
    stop = whole.text[4:7]  # in the middle of tokens, or over the border between two
    for stops in ([stop], ["nothing like it", whole.text[5:7], stop]):
        cut = engine.generate(["hello"], max_tokens=30, ignore_eos=True, stop=stops)[0]
        assert (cut.text, cut.finish_reason) == (whole.text[: whole.text.find(stop)], "stop")
        assert cut.token_ids == whole.token_ids[: len(cut.token_ids)]
    at_once = engine.generate(["hello"], ignore_eos=True, stop=[whole.text[0]])[0]
    assert (at_once.text, at_once.finish_reason) == ("", "stop")
    token = whole.token_ids[6]
    stopped = engine.generate(["hello"], ignore_eos=True, stop_token_ids=[token])[0]
    end = whole.token_ids.index(token) + 1
    assert (stopped.token_ids, stopped.finish_reason) == (whole.token_ids[:end], "stop")


def test_stop_texts_as_a_server_takes_them(speaker: Path) -> None:
    """The match that ends first counts, and the limits are the same."""
    engine = Engine(str(speaker), dtype="float32", max_input_tokens=40, max_output_tokens=40)
    for found in Engine("grammar", dtype="float32").generate(["She go to school."] * 2, stop=["school", "oo"]):
        assert (found.text, found.finish_reason) == ("She goes to sch", "stop")
    whole = engine.generate(["hello"], ignore_eos=True)[0]
    one = whole.text[4:7]
    assert engine.generate(["hello"], ignore_eos=True, stop=one)[0].text == whole.text[: whole.text.find(one)]
    for wrong in ([""], ["x"] * 17, ["x" * 257], ["é" * 129]):
        with pytest.raises(ValueError, match="stop: at most 16 strings, each of 1 to 256 bytes"):
            engine.generate(["hello"], stop=wrong)


def test_a_prefix_of_text(speaker: Path) -> None:
    """ids(prefix) with what begins a text, then ids(text) without it."""
    engine = Engine(str(speaker), dtype="float32", max_input_tokens=40, max_output_tokens=40, prefix="Correct: ")
    whole = Engine(str(speaker), dtype="float32", max_input_tokens=60, max_output_tokens=40)
    assert engine.card.prefix_ids[0] == 256 and len(engine.card.prefix_ids) == 10
    assert engine.card.version != whole.card.version
    asked = ["hello", "you"]
    want = [a.token_ids for a in whole.generate([f"Correct: {text}" for text in asked])]
    assert [a.token_ids for a in engine.generate(asked)] == want
    assert engine.generate(asked, max_tokens=1)[0].usage.input_tokens == 5  # type: ignore[union-attr]
    said = (
        "a prefix of 46 tokens and 100 output tokens leave no room for a prompt in the model's context of 128 positions"
    )
    with pytest.raises(ModelError, match=said):
        load_card(str(speaker), max_output_tokens=100, prefix_text="word " * 9)
    with pytest.raises(ModelError, match="minilm does not generate text: a prefix"):
        Engine("minilm", prefix="Correct: ")
    with pytest.raises(ValueError, match="prompt 0 has 0 tokens"):
        engine.generate([""])


def test_a_prefix_where_special_tokens_end_a_text() -> None:
    """ids(prefix) with what begins a text, then ids(text) with what ends one: nothing is between the two."""
    import tokenizers

    whole = Engine("grammar", dtype="float32", max_output_tokens=24)
    engine = Engine("grammar", dtype="float32", max_input_tokens=12, max_output_tokens=24, prefix="He go. ")
    package = tokenizers.Tokenizer.from_file(whole.card.tokenizer)
    first, last = package.encode("<s><sep>", add_special_tokens=False).ids
    prefix = (first, *package.encode("He go. ", add_special_tokens=False).ids)
    assert engine.card.prefix_ids == prefix and last not in prefix
    texts = ["She go to school.", "", "<sep> <s>", "They was late"]
    ids = [[*package.encode(text, add_special_tokens=False).ids, last] for text in texts]
    found = engine.generate(texts)
    want = whole.generate([[*prefix, *own] for own in ids])
    assert [a.token_ids for a in found] == [a.token_ids for a in want]
    assert [a.usage.input_tokens for a in found if a.usage] == [len(own) for own in ids]
    assert engine.generate([own[:-1] or own for own in ids]) != found, "token ids are taken as they are"
    long = "She go to school with him and all of her friends today and tomorrow."
    n = len(package.encode(long, add_special_tokens=False).ids) + 1
    with pytest.raises(ValueError, match=f"prompt 0 has {n} tokens; the model takes 12"):
        engine.generate([long])
    cut = [*prefix, *package.encode(long, add_special_tokens=False).ids[-11:], last]
    assert engine.generate([long], truncate=True)[0].token_ids == whole.generate([cut])[0].token_ids


@pytest.mark.parametrize(
    ("decoder", "said"),
    [
        (None, "decoder: one without a type is not native"),
        ({"type": "WordPiece"}, "decoder: WordPiece is not native, only ByteLevel and SentencePiece's are"),
        ({"type": "Metaspace", "replacement": "_"}, "decoder: Metaspace with another character"),
    ],
)
def test_a_tokenizer_that_gives_no_text_back_is_refused(
    tmp_path: Path, decoder: dict[str, str] | None, said: str
) -> None:
    write_decoder(tmp_path, "llama", vocab_size=300)
    write_byte_tokenizer(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"decoder": decoder}))
    with pytest.raises(ModelError, match=rf"text cannot be made .*\({said}.*\)\. Without the file"):
        load_card(str(tmp_path), 40, max_output_tokens=24)


@pytest.mark.parametrize(
    ("family", "architecture", "said"),
    [
        ("t5", "T5ForConditionalGeneration", "a t5 embeds here"),
        ("roberta", "RobertaForCausalLM", "a roberta embeds or classifies here"),
    ],
)
def test_encoders_that_do_not_generate_say_what_does(tmp_path: Path, family: str, architecture: str, said: str) -> None:
    write_checkpoint(tmp_path, family)
    edit(tmp_path / "config.json", architectures=[architecture])
    generators = ", ".join(GENERATORS)
    wanted = f"generation with {architecture} is not supported: {said}; these generate: {generators}$"
    with pytest.raises(ModelError, match=wanted):
        load_card(str(tmp_path))


def test_an_answer_as_it_is_made(speaker: Path) -> None:
    """The pieces of a stream are those of the whole answer, whatever ends it; one that is left makes room."""
    engine = Engine(str(speaker), dtype="float32", max_input_tokens=40, max_output_tokens=40)
    whole = engine.generate(["The cat sat"], logprobs=True)[0]
    for stop in ("", whole.text[len(whole.text) // 2 :][:3], whole.text[-1:]):
        asked: dict[str, Any] = {"logprobs": True, "stop": stop or ()}
        wanted = engine.generate(["The cat sat"], **asked)[0]
        *pieces, last = engine.generate_stream("The cat sat", **asked)
        chunks = [*pieces, last]
        assert "".join(chunk.text for chunk in chunks) == wanted.text
        assert [id for chunk in chunks for id in chunk.token_ids] == wanted.token_ids
        assert [p for chunk in chunks for p in chunk.logprobs or ()] == wanted.logprobs
        assert (last.finish_reason, last.usage) == (wanted.finish_reason, wanted.usage)
        assert not any(chunk.finish_reason or chunk.usage for chunk in pieces)
        assert all(len(chunk.token_ids) == 1 for chunk in pieces)
    left = engine.generate_stream("The cat sat", ignore_eos=True)
    next(left)
    left.close()
    assert engine.generate(["The cat sat"], logprobs=True)[0] == whole
    with pytest.raises(ValueError, match=r"the prompt has .* tokens; the model takes 40"):
        next(engine.generate_stream("word " * 100))
    with pytest.raises(ValueError, match="generates no text"):
        Engine("minilm").generate_stream("a")


def test_the_command_streams_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["She have a apple.", "He go to school every day."]
    assert main(["predict", "--model", "grammar", *texts]) == 0
    wanted = capsys.readouterr().out
    assert main(["predict", "--model", "grammar", "--stream", *texts]) == 0
    assert capsys.readouterr().out == wanted and wanted.count("\n") == 2
    assert main(["predict", "--model", "grammar", "--ignore-eos", "--stop-token-ids", "999,1", *texts]) == 0
    assert capsys.readouterr().out == wanted
    assert main(["predict", "--stream", "a"]) == 2
    assert "--stream: the model minilm does not generate text" in capsys.readouterr().err
    assert main(["predict", "--model", "grammar", "--stream", "word " * 1000]) == 2
    assert "(--truncate cuts it)" in capsys.readouterr().err
