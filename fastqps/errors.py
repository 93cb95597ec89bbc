"""The exit codes of every fastqps process, and the errors that carry one to the command line."""

from __future__ import annotations

OK = 0
FAILURE = 1  # at run time
USAGE = 2  # the command line, the configuration, or something it names (a port in use, a missing file)
NO_DEVICE = 3
NO_MODEL = 4  # cannot be loaded or verified
NOT_DRAINED = 5


class FastqpsError(Exception):
    """Something a user can act on: the message is printed as it is, without a traceback, and the process ends."""

    exit_code = FAILURE


class ConfigError(FastqpsError):
    """A setting that is unknown, malformed, out of range, or names a part that this version does not have."""

    exit_code = USAGE
