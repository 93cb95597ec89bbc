"""``fastqps serve`` with fake children: python fake_server.py FLAG… FAKE_DELAY_S: what a second restart waits for."""

import os
import sys

from fastqps.cli.parser import ArgumentParser
from fastqps.cli.serve import add_arguments
from fastqps.config import SETTINGS, decide, load
from fastqps.errors import FastqpsError
from fastqps.supervisor import restarts, serve

restarts.DELAY_FIRST_S = float(os.environ.get("FAKE_DELAY_S", restarts.DELAY_FIRST_S))
parser = ArgumentParser()
add_arguments(parser)
options = vars(parser.parse(sys.argv[1:]))
named = {setting.key: options[setting.key.replace("-", "_")] for setting in SETTINGS}
try:
    config = decide(load({k: v for k, v in named.items() if v is not None}, {}).config)
    sys.exit(serve(config, {"frontdoor": "fake_door", "dispatcher": "fake_dispatcher"}))
except FastqpsError as error:
    print(f"fastqps: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
