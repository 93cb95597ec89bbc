"""Answers of an Engine to conversations, against transformers, without and with a shared prefix."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers as tr
from decoders import expected, write_instruct

from fastqps import Chat, Engine

pytestmark = pytest.mark.compute

TOKENS = 12
SYSTEM = {"role": "system", "content": "Be short."}
SAID = {"role": "assistant", "content": "Hi <end> there"}
CHATS = [
    Chat([{"role": "user", "content": "a"}]),
    Chat([SYSTEM, {"role": "user", "content": "b"}]),
    Chat([SYSTEM, {"role": "user", "content": "c"}, {"role": "assistant", "content": "Hi"}], True),
]


@pytest.mark.parametrize("prefix", ["", "<begin>system\nBe short.<end>\n"])
def test_answers_are_those_of_transformers(prefix: str, tmp_path: Path) -> None:
    model = write_instruct(tmp_path)
    reference = tr.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    reference.chat_template = (tmp_path / "chat_template.jinja").read_text()
    engine = Engine(str(tmp_path), device="cpu", dtype="float32", max_input_tokens=200, prefix=prefix)
    for chat in CHATS if not prefix else CHATS[1:]:
        ends = {"add_generation_prompt": not chat.continue_final_message}
        ends["continue_final_message"] = chat.continue_final_message
        ids = reference.apply_chat_template(list(chat.messages), tokenize=True, return_dict=False, **ends)
        (answer,) = engine.generate([chat], max_tokens=TOKENS)
        assert answer.token_ids == expected(model, ids, TOKENS, [257])
        assert answer.usage and answer.usage.input_tokens == len(ids) - len(engine.card.prefix_ids)
    assert (
        engine.chat(CHATS[1].messages, max_tokens=TOKENS).text == engine.generate([CHATS[1]], max_tokens=TOKENS)[0].text
    )
    engine.close()


@pytest.mark.parametrize(
    ("chat", "why"),
    [
        (Chat([]), "one at least"),
        (Chat([{"role": "tool", "content": "x"}]), "roles"),
        (Chat([SAID], variables={"x": 1}), ""),
    ],
)
def test_special_tokens_in_a_content_are_text(chat: Chat, why: str, tmp_path: Path) -> None:
    write_instruct(tmp_path)
    engine = Engine(str(tmp_path), device="cpu", max_input_tokens=200)
    if why:
        with pytest.raises(ValueError, match=why):
            engine.generate([chat])
    else:
        (answer,) = engine.generate([chat], max_tokens=1)
        assert answer.usage and answer.usage.input_tokens == len(b"assistant\nHi <end> there\nassistant\n") + 3
    engine.close()
