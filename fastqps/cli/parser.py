"""argparse with a suggestion for a misspelt flag, and no abbreviated flags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from fastqps.config.sources import suggestion
from fastqps.errors import ConfigError


class ArgumentParser(argparse.ArgumentParser):
    """Raises ``ConfigError`` where argparse would exit, and says which flag was probably meant."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str, command: str = "") -> NoReturn:
        raise ConfigError(f"{message} (see: {' '.join(filter(None, (self.prog, command)))} --help)")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """As ``parse_args``; an unknown argument is an error that names the closest known flag."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            flag = unknown[0].partition("=")[0]
            self.error(f"unknown argument {flag}{suggestion(flag, self._flags())}", options.command)
        return options

    def _flags(self) -> list[str]:
        found = [flag for action in self._actions for flag in action.option_strings]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    found += command._flags()
        return found
