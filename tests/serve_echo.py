"""``fastqps serve`` as it is, but that its dispatchers answer as echo_dispatcher.py says."""

import sys

from fastqps import cli
from fastqps.children import CHILD_MODULES

CHILD_MODULES["dispatcher"] = "echo_dispatcher"

if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
