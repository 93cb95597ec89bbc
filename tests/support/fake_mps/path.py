"""A PATH with the fake program, and with Python for it: a version manager's script takes five times as long."""

import os
import sys
from pathlib import Path

FAKE_MPS_PATH = os.pathsep.join([str(Path(__file__).parent), str(Path(sys.executable).parent), os.environ["PATH"]])
