"""``fastqps serve`` as it is, but with dispatchers of the tests': echo_dispatcher.py, or TEST_DISPATCHER."""

import os
import sys

from fastqps import cli
from fastqps.children import CHILD_MODULES

CHILD_MODULES["dispatcher"] = os.environ.get("TEST_DISPATCHER", "echo_dispatcher")

if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
