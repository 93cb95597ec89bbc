"""What a script is given (its addresses, texts, …) and how it answers."""

import json
import sys
from types import SimpleNamespace
from typing import Any

GIVEN = SimpleNamespace(**json.loads(sys.argv[1]))


def answer(**found: Any) -> None:
    """Prints the script's answer: arrays and bytes, too, as JSON. A double holds any float32."""
    json.dump(found, sys.stdout, default=lambda value: value.decode() if isinstance(value, bytes) else value.tolist())
