"""The exit codes of the load generator, and the errors that carry one to the command line."""

from __future__ import annotations

OK = 0  # the verdict is VALID
FAILURE = 1  # unreachable, no call was answered OK, the method does not exist
USAGE = 2  # the command line, or a file that it names
UNSTABLE = 6  # the server fell behind for as long as the run went on
INVALID = 7  # the generator, not the server, was the limit
INTERRUPTED = 130  # Ctrl-C; the results so far are written


class LoadgenError(Exception):
    """Something a user can act on: the message is printed as it is, without a traceback, and the process ends."""

    exit_code = FAILURE


class UsageError(LoadgenError, ValueError):
    """A flag, a specification or a file that makes no sense; the message says which and what would."""

    exit_code = USAGE
