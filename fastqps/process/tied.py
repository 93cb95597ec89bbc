"""``python -m fastqps.process.tied PARENT COMMAND…`` becomes that command. The kernel kills it when PARENT dies.

For foreign programs, since the parent-death signal survives an exec.
"""

from __future__ import annotations

import os
import sys

from fastqps.process.parent import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]} cannot be run: {error.strerror}")
