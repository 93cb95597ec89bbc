"""``fastqps card``: writes what an edge needs of a model into a folder."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from fastqps.cli.setting_flags import CARD_KEYS, add_settings, given_settings
from fastqps.config import load
from fastqps.errors import OK
from fastqps.terminal import shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the folder, and the settings on which a card depends."""
    parser.add_argument("model", metavar="MODEL", help="as --model of fastqps serve: NAME_OR_DIR, or NAME=DIR")
    parser.add_argument("--out", metavar="DIR", required=True, help="folder to write, new or empty")
    parser.add_argument("--config", metavar="FILE", help="TOML file with the settings of the servers")
    add_settings(parser, CARD_KEYS)


def run(options: argparse.Namespace) -> int:
    """0; ``ModelError`` where the model cannot be served, or the folder cannot be written."""
    from fastqps.models.card_folder import CARD_FILE, write_card
    from fastqps.models.cards import check_files, deciding_files
    from fastqps.supervisor.plan import fetch_again, named_models, read_cards

    options.model = [options.model]
    config = load(given_settings(options), os.environ, options.config).config
    ((name, path),) = named_models(config)
    fetch_again(name, path, config)
    (card,) = read_cards(config)
    out = Path(options.out).expanduser()
    write_card(card, deciding_files(card), out)
    check_files(card)  # the copies are of the files that the card was made of
    files = [path for path in out.rglob("*") if path.is_file()]
    kib = sum(path.stat().st_size for path in files) >> 10
    place = shown(str(out))
    print(f"{place}: {CARD_FILE} of {shown(card.name)}@{card.version}, and {len(files) - 1} files; {kib:,} KiB")
    print(f"serve it with: fastqps serve --device remote --upstream HOST:PORT --model {place}")
    return OK
