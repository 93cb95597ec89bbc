"""The text around what is scored: a Jinja template, proved at load to put texts in their places and nothing else.

What the template begins and ends with, as far as its tokens do not depend on the texts, becomes ids around every text.
So a text that is too long is cut in front of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fastqps.errors import ModelError
from fastqps.models.chat.reading import ask_child
from fastqps.models.scores.template import TRIMMED, Part, TextTemplate, filled
from fastqps.models.tokenizers.tokenizer import Tokenizer
from fastqps.models.tokenizers.vocabulary import load_package

_MARK = "\ufdd0"  # a noncharacter, which no text has
_FIRST, _SECOND = f"{_MARK}1{_MARK}", f"{_MARK}2{_MARK}"
_SLOTS = {_FIRST: "first", _SECOND: "second"}
# Pairs on which a template is held against its parts, and then its tokens. Those of the second kind may differ where
# the end of the template is tokenized by itself.
_INNER = (
    ("what is food", "a meal"),
    ("A b.", "1.5 (x)"),
    ("été", "中文?"),
    ("{{ x }}", "{% y %}"),
    ("👍", "</think> a"),
)
_OUTER = (("", ""), (" a ", " b\n"), ("\n\nx\t", "y\n\n"), ("q:", "d "))


@dataclass(frozen=True)
class Templates:
    """``forms`` by prompt. ``post_processor``: of a tokenizer.json, with the ids around. ``ends_in_word``: a word that
    goes on has a space in front. ``warnings``: for the operator, a sentence each."""

    forms: tuple[TextTemplate, ...]
    post_processor: dict[str, Any]
    ends_in_word: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Messages:
    """How a template is told texts: roles and contents as sentence-transformers has them, and more ``variables``."""

    structured: bool  # a content is a list of typed parts
    variables: Mapping[str, Any]
    plain: bool = False  # also as the variables text, query and document

    def of(self, first: str, second: str | None, prompt: str) -> dict[str, Any]:
        """The variables for a text or a pair behind the prompt, which is the system's message."""
        said = [("system", prompt)] if prompt else []
        said += [("user", first)] if second is None else [("query", first), ("document", second)]
        messages = [{"role": role, "content": self._content(text)} for role, text in said]
        names = {"text": first} if second is None else {"query": first, "document": second}
        return {"messages": messages, **self.variables, **(names | {"instruction": prompt} if self.plain else {})}

    def _content(self, text: str) -> Any:
        return [{"type": "text", "text": text}] if self.structured else text


def read_templates(template: str, messages: Messages, prompts: Mapping[str, str], source: str, where: str) -> Templates:
    """The parts of the template, and the ids that its beginning and end become. ``prompts``: texts by name, "" the
    default one's. ``source``: the tokenizer's, as of ``Tokenizer.from_source``.

    ``ModelError`` for a template that is more than texts in their places.
    """
    samples = ((_FIRST, _SECOND), *_INNER, *_OUTER)
    asked = [(name, pair, texts) for name in prompts for pair in (False, True) for texts in samples]
    variables = [messages.of(first, second if pair else None, prompts[name]) for name, pair, (first, second) in asked]
    try:
        answers = ask_child("fastqps.models.scores.child", {"template": template, "variables": variables})
    except ModelError as error:
        raise ModelError(f"{where}: {error}") from None
    rendered = {each: _Rendered(*answer) for each, answer in zip(asked, answers, strict=True)}
    forms = []
    for name in prompts:
        (text, why_no_text), (pair, why_no_pair) = (
            _parts({texts: rendered[name, each, texts] for texts in samples}, where, pair=each)
            for each in (False, True)
        )
        if not text and not pair:
            raise ModelError(f"{where}: of a pair {why_no_pair}, and of a text {why_no_text}")
        forms.append(TextTemplate(name, text, pair))
    return _tokenized(forms, source, where)


class _Rendered(NamedTuple):
    text: str
    error: str


def _parts(rendered: Mapping[tuple[str, str], _Rendered], where: str, *, pair: bool) -> tuple[tuple[Part, ...], str]:
    """The parts of a text or of a pair; (), and why, where the template has no place for it."""
    if fault := next((each.error for each in rendered.values() if each.error), ""):
        return (), f"it cannot be rendered ({fault})"
    pieces = re.split(f"({_FIRST}|{_SECOND})", rendered[_FIRST, _SECOND].text)
    slots = [_SLOTS[each] for each in pieces[1::2]] + [""]
    found = tuple(zip(pieces[::2], slots, strict=True))
    if lacking := {"first", *(["second"] if pair else [])} - set(slots):
        return (), f"the {min(lacking)} text does not reach what it renders"
    for trimmed in ((), ("first",), ("second",), ("first", "second")):
        parts = tuple((fixed, slot + (TRIMMED if slot in trimmed else "")) for fixed, slot in found)
        wrong = [texts for texts, whole in rendered.items() if filled(parts, *texts) != whole.text]
        if not wrong:
            return parts, ""
    changed = " and ".join(map(repr, wrong[0][: 1 + pair]))
    raise ModelError(f"{where}: it changes texts such as {changed}; it may put them in their places, and trim them")


def _tokenized(forms: Sequence[TextTemplate], source: str, where: str) -> Templates:
    """The forms without the beginning and the end that they share, which become ids."""
    tokenizer = Tokenizer.from_source(source, special_tokens="none")
    specials = _specials(source)
    variants = [parts for form in forms for parts in (form.text, form.pair) if parts]
    head = _common([parts[0][0] for parts in variants])
    tail = _common([parts[-1][0][::-1] for parts in variants])[::-1]
    heads = [*sorted((match.end() for match in specials.finditer(head)), reverse=True), 0]
    tails = [*(match.start() for match in specials.finditer(tail)), *range(len(tail) or 1)]
    for behind, front in itertools.product(tails, heads):
        cut = _Cut(head[:front], tail[behind:])
        if all(cut.apart(tokenizer, parts, _INNER) for parts in variants):
            break
    else:
        raise ModelError(
            f"{where}: the tokens of its end, {tail[:60]!r}, depend on the text in front of it; let a special token or "
            "a word stand there"
        )
    lenient = not all(cut.apart(tokenizer, parts, _OUTER) for parts in variants)
    warning = f"{where}: the tokens of its end are those that it has by itself, whatever a text ends with."
    left = tuple(replace(form, text=cut.within(form.text), pair=cut.within(form.pair)) for form in forms)
    around = tokenizer.encode(cut.head), tokenizer.encode(cut.tail)
    closed = tail[-1:].isspace() or any(match.end() == len(tail) for match in specials.finditer(tail))
    return Templates(left, _post_processor(*around), not closed, (warning,) if lenient else ())


@dataclass(frozen=True)
class _Cut:
    """What is taken off the beginning and the end of a template."""

    head: str
    tail: str

    def within(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        if not parts:
            return ()
        found = [(parts[0][0][len(self.head) :], parts[0][1]), *parts[1:]]
        text, slot = found[-1]
        return (*found[:-1], (text[: len(text) - len(self.tail)], slot))

    def apart(self, tokenizer: Tokenizer, parts: tuple[Part, ...], pairs: Sequence[tuple[str, str]]) -> bool:
        """Whether the tokens are those of the three parts, each by itself, for these texts."""
        head, tail = tokenizer.encode(self.head), tokenizer.encode(self.tail)
        inner = self.within(parts)
        return all(
            tokenizer.encode(filled(parts, *pair)) == head + tokenizer.encode(filled(inner, *pair)) + tail
            for pair in pairs
        )


def _common(texts: Sequence[str]) -> str:
    """What all of them begin with."""
    shortest = min(texts, key=len)
    length = len(shortest)
    while not all(text.startswith(shortest[:length]) for text in texts):
        length -= 1
    return shortest[:length]


def _specials(source: str) -> re.Pattern[str]:
    """Finds the added tokens that end a text's other tokens wherever they stand."""
    added = load_package(source).get_added_tokens_decoder().values()
    plain = [t.content for t in added if not (t.lstrip or t.rstrip or t.single_word or t.normalized)]
    return re.compile("|".join(map(re.escape, sorted(plain, key=len, reverse=True))) or r"(?!)")


def _post_processor(head: Sequence[int], tail: Sequence[int]) -> dict[str, Any]:
    names = {"head": head, "tail": tail}

    def pieces(*sequences: str) -> Iterator[dict[str, Any]]:
        for id in ("head", *sequences, "tail"):
            if id in sequences or names[id]:
                yield {("Sequence" if id in sequences else "SpecialToken"): {"id": id, "type_id": 0}}

    return {
        "type": "TemplateProcessing",
        "single": list(pieces("A")),
        "pair": list(pieces("A", "B")),
        "special_tokens": {
            name: {"id": name, "ids": list(ids), "tokens": [f"{name} {i}" for i in range(len(ids))]}
            for name, ids in names.items()
            if ids
        },
    }
