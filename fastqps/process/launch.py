"""The first thing that runs in every child process: ``python -m fastqps.process.launch MODULE SETTINGS``.

Ties the process's life to the supervisor's, confines it to its CPUs and names it; only then imports MODULE, which may
take seconds, and calls its ``main(settings)``. SETTINGS is what ``children`` wrote.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

from fastqps._native import stale
from fastqps.errors import FAILURE, OK, FastqpsError, lack_of_memory
from fastqps.process.children import LEAVE, Settings, read_settings
from fastqps.process.prctl import die_with_parent
from fastqps.process.startup import STARTUP
from fastqps.terminal import Level, say, say_to, to_supervisor


def main(argv: list[str]) -> int:
    """Runs one child; its exit code."""
    module, text = argv
    say_to(to_supervisor)
    settings: Settings = read_settings(text)
    die_with_parent(settings.parent_pid)
    # Only the supervisor ends its children. A service manager that signals all processes addresses the whole server.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(LEAVE, lambda number, frame: os._exit(OK))  # until MODULE has work that it must finish
    if settings.cpus:
        os.sched_setaffinity(0, settings.cpus)
    import setproctitle

    setproctitle.setproctitle(f"fastqps: {settings.title}")
    try:
        role = import_module(module)
        STARTUP.so_far("imports")
        return int(role.main(settings))
    except FastqpsError as error:
        say(error, Level.ERROR)
        return error.exit_code
    except Exception as failure:
        reason = stale(failure) or lack_of_memory(failure)
        if reason is None:
            raise
        say(reason, Level.ERROR)
        return FAILURE


if __name__ == "__main__":
    # At once: handlers of the interpreter's exit would call a device that has failed, and take apart all that torch has
    # imported.
    os._exit(main(sys.argv[1:]))
