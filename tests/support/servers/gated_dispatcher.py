"""The usual dispatcher on its real device. Its sequences wait for gates: TEST_GATED lists how many tokens one has made
before it comes to the server's first gate, its second, and so on. A step waits with all its sequences."""

import os

from gates import HOLD, pass_through

from fastqps.dispatcher import loop as dispatcher
from fastqps.process.children import DispatcherSettings
from fastqps.runners.decoder import DecoderRunner

PLACES = [int(tokens) for tokens in os.environ["TEST_GATED"].split(",")]


def main(settings: DispatcherSettings) -> int:
    run = DecoderRunner.run

    def gated(runner: DecoderRunner, n_runs: int, n_tokens: int, n_admitted: int, /) -> None:
        longest = max(runner.buffers().made[:n_runs].tolist(), default=0)
        pass_through(HOLD + i for i, tokens in enumerate(PLACES) if longest >= tokens)
        run(runner, n_runs, n_tokens, n_admitted)

    DecoderRunner.run = gated  # type: ignore[method-assign]
    return dispatcher.main(settings)
