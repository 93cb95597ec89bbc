"""One of several processes that find out how to split a CPU: ``python -m fastqps.dispatcher.split_trial``.

Each loads the model as a dispatcher would, and runs steps when it is asked to, at the same time as the others. The
first line on stdin says what to load, each further one what to run; each answer is a line of JSON on stdout. The end of
stdin ends the process. ``fastqps.supervisor.split`` is the other side.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import torch

from fastqps.devices import make_runner
from fastqps.errors import FastqpsError
from fastqps.models.card import ModelCard
from fastqps.process.parent import die_with_parent
from fastqps.runners.lane import make_lane
from fastqps.runners.timed_steps import TimedSteps
from fastqps.terminal import say


def main() -> int:
    """Answers until nobody asks any more."""
    die_with_parent(os.getppid())
    steps = _load(json.loads(sys.stdin.readline()))
    _answer(most=steps.most)
    for line in sys.stdin:
        asked = json.loads(line)
        torch.set_num_threads(asked["threads"])
        size = min(asked["items"], steps.most)
        steps(size, 0.0)  # a new number of threads takes effect
        time.sleep(max(0.0, asked["from_ns"] - time.monotonic_ns()) / 1e9)
        seconds, count = steps(size, asked["for_s"])
        _answer(rate=size * count / seconds)
    return 0


def _load(asked: dict[str, Any]) -> TimedSteps:
    card = ModelCard.from_json(asked["card"])
    options = {key: asked[key] for key in ("dtype", "quantization", "threads")}
    runner = make_runner("cpu", card, asked["max_items"], asked["max_tokens"], **options)
    runner.warm_up()
    return TimedSteps(card, [make_lane(runner, 2)])


def _answer(**found: Any) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FastqpsError as error:
        say(error)
        sys.exit(error.exit_code)
