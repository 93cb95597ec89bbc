"""Refuses flags and commands of other servers with one line: what they are here, and the command that works."""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from fastqps.cli.peers import COMMANDS, OUT, PEERS
from fastqps.config.settings import SETTINGS
from fastqps.config.values import parse_value
from fastqps.errors import ConfigError
from fastqps.models.files.ways_out import on_hub
from fastqps.models.names import PACKAGED

FLAG = re.compile(r"--[a-z-]+ \S+")  # a flag here and its value; all other meanings are sentences or parts of a name
NAME, REVISION = "NAME=MODEL", "MODEL@REVISION"
_SEVERAL = ("--served-model-name", "--api-key")  # take all words that follow
_SETTINGS = {f"--{setting.key}": setting for setting in SETTINGS}
_THOUSANDS = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20}  # of vLLM's numbers, such as 4k
_VALUES = ("on", "off", "true", "false")  # of flags that also stand alone


def refuse(arguments: Sequence[str], own: Mapping[str, bool]) -> None:
    """Raises ``ConfigError`` if the command or a flag is another server's.

    ``arguments``: the command and what follows. ``own``: the flags of ``fastqps serve``, and whether one needs a value.
    """
    command, *rest = arguments
    if rest and rest[0] in COMMANDS:  # the image puts serve in front
        command, *rest = rest
    unknown = {flag for flag, _ in _split(rest, own)} - own.keys() - {""}
    peer = COMMANDS.get(command) or max(PEERS, key=lambda name: len(unknown & rows(name).keys()))
    theirs = rows(peer)
    if command not in COMMANDS and not unknown & theirs.keys():
        return
    notes = [f"{peer}'s {command} is serve here"] if command in COMMANDS else []
    here = _Command(own, of_ollama=peer == "Ollama")
    for flag, value in _split(rest, {**own, **{flag: needs for flag, (needs, _) in theirs.items()}}):
        if flag in theirs:
            notes.append(f"{peer}'s {flag}{here.translate(theirs[flag][1], value)}")
        elif flag in own or not flag:
            if wrong := here.keep(flag, value):
                notes.append(f"{flag or value}: {wrong}")
        else:
            notes.append(f"unknown argument {flag}")
    raise ConfigError(f"{'; '.join(dict.fromkeys(notes))}; try: {here}")


def rows(peer: str) -> dict[str, tuple[bool, str]]:
    """The flags of another server: whether each needs a value, and what it is here."""
    return {key.partition(" ")[0]: (" " in key, means) for key, means in PEERS.get(peer, {}).items()}


def _split(arguments: Sequence[str], needs_value: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Each flag with its value, and each model as the value of no flag. The word behind an unknown flag is its value:
    it may be a secret, and is no model."""
    left = deque(arguments)
    while left:
        flag, equals, value = left.popleft().partition("=")
        follows = left[0] if left and not equals else ""
        unknown = flag not in needs_value and not follows.startswith("-")
        if not flag.startswith("-"):
            flag, value = "", f"{flag}{equals}{value}"
        elif follows and (needs_value.get(flag) or unknown or follows in _VALUES):
            value = left.popleft()
            while flag in _SEVERAL and left and not left[0].startswith("-"):
                value = f"{value},{left.popleft()}"
        yield flag, value


class _Command:
    """The command that does here what the other one does there."""

    def __init__(self, own: Mapping[str, bool], of_ollama: bool) -> None:
        self._own, self._of_ollama = own, of_ollama
        self._models: list[str] = []
        self._names: list[str] = []
        self._revisions: list[str] = []
        self._flags: list[str] = []

    def keep(self, flag: str, value: str) -> str:
        """Takes over a flag, or a model. Leaves out one whose value would be refused: why, as the end of a sentence."""
        if flag in ("", "--model"):
            return self._keep_model(value)
        if wrong := self._wrong(flag, value):
            return f"{wrong}: {OUT}"
        self._flags += [f"{flag}={value}"] if value.startswith("-") else [flag, value] if value else [flag]
        return ""

    def _keep_model(self, name: str) -> str:
        if self._of_ollama and self._models:
            return f"clients send texts; {OUT}"
        found = on_hub(name)
        unknown = self._of_ollama and not found and "/" not in name and name not in PACKAGED
        self._models.append(f"OWNER/{name.partition(':')[0]}" if unknown else found or name)
        return "its name on the hub is OWNER/NAME" if unknown else ""

    def _wrong(self, flag: str, value: str) -> str:
        if flag not in _SETTINGS or (not value and not self._own[flag]):
            return ""
        if not value:
            return "it has no value"
        try:
            parse_value(_SETTINGS[flag], value)
        except ValueError as error:
            return str(error)
        return ""

    def translate(self, means: str, value: str) -> str:
        """Adds what a flag means, if it can; the end of a sentence about it."""
        if means in (NAME, REVISION):
            (self._names if means == NAME else self._revisions).append(value)
            return f" is {means} here"
        if not FLAG.fullmatch(means):
            return f": {means}"
        flag, _, wanted = means.partition(" ")
        if number := re.fullmatch(r"([0-9]+)([kKmM])", value):
            value = str(int(number[1]) * _THOUSANDS[number[2]])
        wrong = self.keep(flag, "off" if (wanted, value) == ("on", "false") else wanted.replace("{}", value))
        return f" is {flag if '{}' in wanted else means} here{'; ' if wrong else ''}{wrong}"

    def __str__(self) -> str:
        named = zip_longest(self._models, self._names, self._revisions, fillvalue="")
        models = [
            f"{name}{'=' if name else ''}{model}{'@' if revision else ''}{revision}"
            for model, name, revision in named
            if model
        ]
        return shlex.join(["fastqps", "serve", *models, *self._flags])
