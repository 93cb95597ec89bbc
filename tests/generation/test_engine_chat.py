"""Conversations in an Engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from generators import write_generator

from fastqps import Chat, Engine
from fastqps.cli import main
from fastqps.engine import prompts
from fastqps.models.chat.card import ChatCard
from fastqps.models.chat.tokens import ChatTokens
from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ 'me:' if add_generation_prompt }}"


def test_answers_are_those_to_the_rendered_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_generator(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    engine = Engine(str(tmp_path), dtype="float32", max_input_tokens=64, max_output_tokens=8)
    read = []

    def reading(card: ChatCard, tokenizer: Tokenizer) -> ChatTokens:
        read.append(card)
        return ChatTokens(card, tokenizer)

    monkeypatch.setattr(prompts, "ChatTokens", reading)
    messages = [{"role": "developer", "content": "Be"}, {"role": "user", "content": "Hi"}]
    (wanted,) = engine.generate(["system: Be\nuser: Hi\nme:"], add_special_tokens=False)
    for answer in (engine.chat(messages), *engine.generate([Chat(messages)])):
        assert (answer.token_ids, answer.usage) == (wanted.token_ids, wanted.usage)
    assert len(read) == 1, "the tokenizer's file is read for each conversation"
    with pytest.raises(ValueError, match="of the roles"):
        engine.chat([{"role": "tool", "content": ""}])


def test_the_command_line_begins_a_conversation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_generator(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    command = ["predict", "--model", str(tmp_path), "--max-tokens=4", "--json"]
    assert main([*command, "--chat", "--system", "Be", "Hi"]) == 0
    assert main([*command, "--no-special-tokens", "system: Be\nuser: Hi\nme:"]) == 0
    chat, rendered = capsys.readouterr().out.splitlines()
    assert chat == rendered


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ("Hi", "must be a list of objects"),
        ([("user", "Hi")], r"messages\[0\]: must be an object with a role and a content, not tuple"),
        ([{"role": "user"}], r"messages\[0\].content: must be a str, not NoneType"),
        ([{"role": "user", "content": [{"type": "text", "text": "x" * 1000}]}], r"\.content: must be a str, not list$"),
        ([{"role": "user", "content": "x"}, {"content": "x"}], r"messages\[1\].role: must be a str, not NoneType"),
    ],
)
def test_messages_that_are_none(messages: Any, why: str) -> None:
    """The error names the place, and shows no content."""
    with pytest.raises(TypeError, match=why):
        Chat(messages).pairs()
