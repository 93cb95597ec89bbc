"""``python -m fastqps`` is ``fastqps``."""

import sys

from fastqps.cli import main

sys.exit(main())
