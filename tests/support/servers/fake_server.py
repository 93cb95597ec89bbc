"""``fastqps serve`` with fake children: python fake_server.py FLAG…

Whoever does what the supervisor asks has all the time that it takes. FAKE_LIMITS: what a test wants otherwise, such as
"restarts.DELAY_FIRST_S=0.01,domain.LEAVE_MAX_S=0.5". FAKE_KERNEL: "old": it cannot watch processes.
FAKE_METER: "broken": the load cannot be measured.
"""

import errno
import os
import sys

from fastqps.admin import pages
from fastqps.cli.parser import ArgumentParser
from fastqps.cli.serve import add_arguments
from fastqps.config import SETTINGS, decide, load
from fastqps.errors import FastqpsError
from fastqps.supervisor import serve, server
from fastqps.supervisor.gpu import failure_domain as domain
from fastqps.supervisor.gpu import mps
from fastqps.supervisor.workers import restarts, slot
from fastqps.telemetry.metrics.meter import LoadMeter

MODULES = {"domain": domain, "mps": mps, "pages": pages, "restarts": restarts, "slot": slot, "server": server}
PATIENT = (
    "restarts.WINDOW_S domain.LEAVE_MAX_S mps.START_MAX_S mps.ASK_MAX_S mps.CLIENTS_MAX_S mps.QUIT_MAX_S "
    "server.REAP_MAX_S"
)
limits = dict.fromkeys(PATIENT.split(), "600")
limits |= [pair.split("=") for pair in os.environ.get("FAKE_LIMITS", "").split(",") if pair]
for name, value in limits.items():
    module, _, limit = name.partition(".")
    assert isinstance(getattr(MODULES[module], limit), (int, float)), f"no limit {name}"
    setattr(MODULES[module], limit, float(value))


def refuse(pid: int, flags: int = 0) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


if os.environ.get("FAKE_KERNEL") == "old":
    os.pidfd_open = refuse

if os.environ.get("FAKE_METER") == "broken":
    LoadMeter.tick = None

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
