"""``python -m fastqps.tied PARENT COMMAND…``: becomes that command, which the kernel ends when process PARENT dies.

For programs that are not ours: the signal outlives the change of program.
"""

from __future__ import annotations

import os
import sys

from fastqps.parent import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]} cannot be run: {error.strerror}")
