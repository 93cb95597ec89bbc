"""``python -m loadgen``. SIGTERM is as Ctrl-C: whoever ends a run gets what it has measured."""

import signal
import sys

from loadgen.errors import INTERRUPTED

signal.signal(signal.SIGTERM, signal.default_int_handler)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
try:
    from loadgen.cli import main  # here: it takes a while, and Ctrl-C may come meanwhile
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)
sys.exit(main())
