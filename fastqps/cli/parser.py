"""argparse with a suggestion for a misspelt flag, and no abbreviated flags."""

from __future__ import annotations

import argparse
from collections.abc import Container, Sequence
from typing import Any, NoReturn

from fastqps.config.sources import suggestion
from fastqps.errors import ConfigError


class ArgumentParser(argparse.ArgumentParser):
    """Raises ``ConfigError`` where argparse would exit, and says which flag was probably meant.

    ``passed_on``: flags of another command, which it is given behind ``--``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self.passed_on: Container[str] = ()

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see: {self.prog} --help)")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parses like ``parse_args``; an unknown argument is an error that names the closest flag of the command."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            self._chosen(options)._refuse(unknown[0].partition("=")[0])
        return options

    def needs_value(self) -> dict[str, bool]:
        """All flags, and whether a value must follow each."""
        return {flag: action.nargs is None for action in self._actions for flag in action.option_strings}

    def _chosen(self, options: argparse.Namespace) -> ArgumentParser:
        """The parser of the command, and of the command within it, that ``options`` names."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                chosen: ArgumentParser = action.choices[getattr(options, action.dest)]
                return chosen._chosen(options)
        return self

    def _refuse(self, flag: str) -> NoReturn:
        if flag in self.passed_on:
            self.error(f"{flag} is a flag of the server: write it behind --, as in: {self.prog} … -- {flag} …")
        flags = [known for action in self._actions for known in action.option_strings]
        self.error(f"unknown argument {flag}{suggestion(flag, flags)}")
