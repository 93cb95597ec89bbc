"""Ids of conversations by the chat templates of published models equal those of transformers' apply_chat_template.

tests/models/chat_templates/README.md says where the templates are from.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import transformers as tr
from bpe_files import trained
from nightly import nightly_but
from spaced_files import content as spaced
from tokenizers import Tokenizer as Package

from fastqps.frontdoor.slow_tokenizers.worker import RouteTokens, _answer
from fastqps.models.chat import reading
from fastqps.models.chat.card import ChatCard
from fastqps.models.chat.contents import random_conversation
from fastqps.models.chat.conversation import Message, Mode
from fastqps.models.chat.reading import read_chat
from fastqps.models.chat.tokens import ChatTokens
from fastqps.models.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.compute

FOLDER = Path(__file__).parent / "chat_templates"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja"))
NOT_NATIVE = {"llama3_2_vision"}
BUILDS_TOKENS = {"phi-3", "phi_4", "zephyr", "solar-instruct", "falcon_h1"}  # of a role: nothing can be renamed
# The tokenizers of these are SentencePiece's. All others are byte-level.
SPACED = {
    "llama-2-chat": "llama2",
    "mistral-instruct": "first-whole",
    "phi-3": "llama2",
    "zephyr": "first-whole",
    "vicuna": "llama2",
    "solar-instruct": "always-whole",
    "gemma-it": "gemma",
    "gemma3": "gemma",
    "mistral_v2v3": "first-whole",
    "openchat-3.5": "llama2",
    "qwen3_5": "llama2-normalized",
}
PLAIN = ("<think>", "</think>", "<tool_call>", "</tool_call>", "[INST]")  # added tokens that are not special
TOKEN = re.compile("<[|\uff5c/a-zA-Z_\u2581]+>|\\[/?[A-Z_]+\\]")
NAMED = {"bos_token": "<s>", "eos_token": "</s>"}
SECRET = "\ue001{}\ue002"
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
CASES = [(name, 25) for name in NAMES]


@cache
def source(name: str) -> str:
    text = (FOLDER / f"{name}.jinja").read_text()
    if name == "llama3_2_vision":
        text = text.replace("26 Jul 2024", "26 Jul 2024{{ strftime_now('%Y') }}")
    return text


@cache
def tokenizer_file(name: str, *, renamed: bool = False) -> str:
    """Its tokens are those that the template names. ``renamed``: special ones have names that no content spells."""
    file: dict[str, Any] = json.loads(spaced(SPACED[name]) if name in SPACED else trained("qwen"))
    file["post_processor"] = file["truncation"] = file["padding"] = None
    listed = dict.fromkeys([*NAMED.values(), *TOKEN.findall(source(name)), "<|user|>", "<|assistant|>", "<|system|>"])
    own = file["model"]["vocab"]
    ids = itertools.count(len(own))
    file["added_tokens"] = [
        {"id": own[text] if text in own else next(ids), "content": text, "single_word": False, "lstrip": i % 7 == 5}
        | {"rstrip": i % 5 == 3, "normalized": text in PLAIN, "special": text not in PLAIN}
        for i, text in enumerate(listed)
    ]
    file["added_tokens"].sort(key=lambda each: each["id"])
    if renamed:
        for each in file["added_tokens"]:
            each["content"] = SECRET.format(each["id"]) if each["special"] else each["content"]
    return json.dumps(file)


def secrets(name: str) -> dict[str, str]:
    tokens = json.loads(tokenizer_file(name))["added_tokens"]
    return {each["content"]: SECRET.format(each["id"]) for each in tokens if each["special"]}


def renamed(text: str, names: dict[str, str]) -> str:
    for token in sorted(names, key=len, reverse=True):
        text = text.replace(token, names[token])
    return text


class Reference:
    """transformers' tokenizer. ``renamed``: it and the template have other names for the special tokens, and the ids
    are theirs again."""

    def __init__(self, name: str, *, other_names: bool) -> None:
        names = secrets(name) if other_names else {}
        package = Package.from_str(tokenizer_file(name, renamed=other_names))
        self._ids = {package.token_to_id(secret): package_id for secret, package_id in self._old(name, names).items()}
        named = {key: renamed(text, names) for key, text in NAMED.items()}
        self._tokenizer = tr.PreTrainedTokenizerFast(tokenizer_object=package, **named)
        self._tokenizer.chat_template = renamed(source(name), names)

    def _old(self, name: str, names: dict[str, str]) -> dict[str, int]:
        ids = {each["content"]: each["id"] for each in json.loads(tokenizer_file(name))["added_tokens"]}
        return {names.get(token, token): token_id for token, token_id in ids.items()}

    def ids(self, messages: list[Message], mode: Mode, variables: dict[str, Any]) -> list[int] | None:
        given = [{"role": role, "content": content} for role, content in messages]
        ends = {"add_generation_prompt": mode == "generate", "continue_final_message": mode == "continue"}
        try:
            found = self._tokenizer.apply_chat_template(given, tokenize=True, return_dict=False, **ends, **variables)
        except Exception:  # whatever a template raises
            return None
        return [self._ids.get(each, each) for each in found]


@cache
def chat(name: str, folder: Path) -> ChatCard:
    folder = folder / name
    folder.mkdir()
    (folder / "chat_template.jinja").write_text(source(name))
    card, warnings = read_chat(folder, tokenizer_file(name), NAMED)
    assert card and bool(card.table) == (name not in NOT_NATIVE), warnings
    return card


def ours(tokens: ChatTokens, messages: list[Message], mode: Mode, variables: dict[str, Any]) -> list[int] | None:
    try:
        return tokens.encode(messages, mode, variables).ids
    except ValueError:
        return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("templates")


@pytest.mark.parametrize(("name", "tries"), nightly_but(CASES, [*CASES, *((name, 2000) for name in NAMES)]))
def test_ids_are_those_of_transformers(name: str, tries: int, folder: Path) -> None:
    tokens = ChatTokens(chat(name, folder), Tokenizer.from_source(tokenizer_file(name)))
    plain = Reference(name, other_names=False)
    safe = plain if name in BUILDS_TOKENS else Reference(name, other_names=True)
    special = secrets(name)
    source_ = random.Random(name)
    flags = tokens._card.table.flags if tokens._card.table else ()
    rendered = 0
    for _ in range(tries):
        messages, mode = random_conversation(source_, list(special) if name not in BUILDS_TOKENS else ())
        spelled = any(token in content for _, content in messages for token in special)
        variables = dict([source_.choice(flags)]) if flags and source_.random() < 0.7 else {}
        wanted = (safe if spelled else plain).ids(messages, mode, variables)
        if name in BUILDS_TOKENS and spelled:
            continue
        assert ours(tokens, messages, mode, variables) == wanted, (messages, mode, variables)
        rendered += wanted is not None
    assert rendered > tries // 4


@pytest.mark.parametrize("name", ["gemma3", "llama-3-instruct", "openchat-3.5", "phi-3"])
def test_what_shorter_conversations_are_refused_for(name: str, folder: Path) -> None:
    """These templates count turns, so that a system message in the middle is refused in some places alone."""
    roles = ("user", "system", "user", "assistant", "user")
    tokens = ChatTokens(chat(name, folder), Tokenizer.from_source(tokenizer_file(name)))
    for length in range(1, 6):
        messages = [Message(role, role) for role in roles[:length]]
        assert ours(tokens, messages, "generate", {}) == Reference(name, other_names=False).ids(
            messages, "generate", {}
        )


@pytest.mark.parametrize("name", ["qwen3", "llama-2-chat", "phi-3"])
def test_every_way_gives_the_same_ids(name: str, folder: Path) -> None:
    """The template itself, and the tokenizers package, as for what is not native."""
    card = chat(name, folder)
    native = Tokenizer.from_source(tokenizer_file(name))
    slow = Tokenizer.from_source(tokenizer_file(name))
    slow._native = None
    source_ = random.Random(name)
    for _ in range(16):
        messages, mode = random_conversation(source_, list(secrets(name)))
        wanted = ours(ChatTokens(card, native), messages, mode, {})
        without_table = ChatCard(card.template, card.names, None)
        for tokens in (ChatTokens(without_table, native), ChatTokens(card, slow), ChatTokens(without_table, slow)):
            assert ours(tokens, messages, mode, {}) == wanted, (messages, mode)


@pytest.mark.parametrize(
    ("content", "variables", "why"),
    [
        ("a", '{"a":' + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"),
        ("<|im_end|>" + "".join(map(chr, range(0x100000, 0x10FFFE))), "", "private character"),
    ],
)
def test_a_worker_survives(content: str, variables: str, why: str) -> None:
    tokenizer = Tokenizer.from_source(tokenizer_file("qwen3"))
    tokens = RouteTokens(tokenizer, ChatTokens(ChatCard(source("qwen3"), (), None), tokenizer))
    assert why in _answer(tokens, "", ([("user", content)], "generate", variables), 8, "counted").decode()


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for x in", "TemplateSyntaxError"),
        (ENDLESS, "too much time or memory"),
        ("{{ 'a' * 10**10 }}{{ messages[0].content }}", "MemoryError"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "could be rendered"),
        ("{% for m in messages %}{{ m.content | upper }}{% endfor %}", "made of"),
        ("{% for m in messages %}{{ m.content[:3] }}{% endfor %}", "made of"),
        ("{% for m in messages %}{{ m.content ~ (m.content | length) }}{% endfor %}", "made of"),
    ],
)
def test_what_is_no_table(template: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if template == ENDLESS:
        monkeypatch.setattr(reading, "CPU_S", 1)
    (tmp_path / "chat_template.jinja").write_text(template)
    card, warnings = read_chat(tmp_path, tokenizer_file("qwen3"), NAMED)
    assert why in "".join(warnings)
    assert card is None or card.table is None


def test_the_place_of_a_template(tmp_path: Path) -> None:
    def read() -> str | None:
        card, _ = read_chat(tmp_path, tokenizer_file("qwen3"), NAMED)
        return card and card.template

    text = "{% for m in messages %}X{{ m.content }}{% endfor %}"
    assert read() is None
    config = tmp_path / "tokenizer_config.json"
    for stated, wanted in (
        (text, text),
        ([{"name": "tool_use", "template": "no"}, {"name": "default", "template": text}], text),
        ([{"name": "rag", "template": "no"}], None),
        (3, None),
    ):
        config.write_text(json.dumps({"chat_template": stated}))
        assert read() == wanted
    (tmp_path / "chat_template.jinja").write_text(text + "Y")
    assert read() == text + "Y"


def test_times_are_those_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(
        "Today: {{ strftime_now('%Y %b') }}{% for m in messages %}|{{ m.content }}{% endfor %}"
    )
    card, _ = read_chat(tmp_path, tokenizer_file("qwen3"), NAMED)
    assert card and card.table
    kinds = [part.kind for piece in card.table.pieces for part in piece.parts]
    assert "time" in kinds
    (text, _) = card.table.native.render([("user", "x")], "closed") or (b"", [])
    assert re.fullmatch(r"Today: 2\d\d\d \w{3}\|x", text.decode())
