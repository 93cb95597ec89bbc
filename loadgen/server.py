"""``python -m loadgen.server``: a gRPC server whose behaviour is known, to prove a load generator against.

It takes any method. Jobs go through one queue and one server, first come first served, in virtual time: they wait as
theory says, and that costs no CPU.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

from loadgen import units
from loadgen.errors import OK, LoadgenError, UsageError
from loadgen.flags import Parser, checked, integer


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGINT or SIGTERM; the first line on stdout is the port."""
    parser = Parser(
        prog="python -m loadgen.server", description=(__doc__ or "").partition("\n\n")[2], allow_abbrev=False
    )
    add = parser.add_argument
    add("--port", type=checked(integer(0, 65535)), default=0, help="0, the default: any free one; it is printed")
    add("--service", type=checked(units.duration_ns), default=0, metavar="TIME", help="of each job, as 2ms")
    try:
        o = parser.parse(list(sys.argv[1:] if arguments is None else arguments))
        _serve(o.port, o.service)
    except LoadgenError as error:
        print(f"loadgen.server: {error}", file=sys.stderr)
        return error.exit_code
    return OK


def _serve(port: int, service_ns: int) -> None:
    """Serves until a signal comes. Raises ``UsageError`` for a port that cannot be had."""
    try:
        from loadgen._native import Server
    except ImportError as error:
        raise LoadgenError(f"the native server is not built, run `make build` ({error.__cause__ or error})") from None
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    try:
        server = Server(port=port, service_ns=service_ns)
    except OSError as error:
        raise UsageError(f"cannot serve on port {port}: {error}") from None
    print(server.port, flush=True)
    while not over.wait(3600):
        pass
    server.stop()


if __name__ == "__main__":
    sys.exit(main())
