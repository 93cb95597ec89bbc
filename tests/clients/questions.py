"""What clients are asked to send, and the programs of build/clients that send it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from paths import ROOT
from serving import PATIENCE_S, Server

FOLDER = ROOT / "build/clients"
SCRIPTS = Path(__file__).parent / "scripts"
TEXT = "A man is eating food."
TEXTS = [TEXT, 'Zürich,\t"東京"', "x"]  # LlamaIndex strips texts, and makes line ends spaces
IDS = [362, 893, 374]
COUNT_MAX = 20  # tokens
ANSWER_MAX = 400  # of the chat model
QUERY = "what is food?"
DOCUMENTS = ["A man is eating food.", 'Zürich, "東京"\n\t', "word " * 40, "another"]
PROMPT = "She have a apple."


def output(*command: str | Path) -> str:
    """What a program prints. It sees nothing of this tree, and no proxy."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {"K6_NO_USAGE_REPORT": "true", "LD_LIBRARY_PATH": f"{FOLDER}/perf_analyzer"}
    environment |= {"HAYSTACK_TELEMETRY_ENABLED": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "true"}
    environment.pop("PYTHONPATH", None)
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE_S)
    assert done.returncode == 0, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_script(name: str, server: Server) -> Any:
    """The JSON that a script prints. It is given the server's addresses and what to ask."""
    given = {"grpc": server.address, "http": server.http, "text": TEXT, "texts": TEXTS, "ids": IDS}
    given |= {"query": QUERY, "documents": DOCUMENTS, "prompt": PROMPT, "count_max": COUNT_MAX}
    return json.loads(output(FOLDER / "bin/python", SCRIPTS / f"{name}.py", json.dumps(given)))
