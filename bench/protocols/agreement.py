"""perf_analyzer and loadgen in the same closed loop, on a device that is so slow that both can keep it busy."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.load import Load, loadgen
from bench.protocols.perf_analyzer import perf_analyzer
from bench.protocols.requests import MODEL_INFER, model_infer
from fastqps.bench.measure.workload import write_messages
from fastqps.process.server_process import ServerProcess

CONCURRENCY = 16
RATE = 4000  # of the device, whatever the size of its steps: an item takes as long in each
_PROFILE = f"""name = "steady"
status = "estimated"
source = "chosen, so that two load generators have the same limit"
task = "embed"
[step]
fixed_us = 1
per_token_us = 0.0
per_item_us = {1e6 / RATE}
"""


class Agreement:
    """From ``with`` on with a server of its own."""

    def __init__(self, folder: Path, text: str, server_cpu: int, load_cpu: int) -> None:
        self._folder, self._text, self._load_cpu = folder, text, load_cpu
        self._payloads = write_messages(folder / "agreement", [model_infer(text)])
        (folder / "steady.toml").write_text(_PROFILE)
        flags = ("--model", "minilm", "--device", f"sim:{folder / 'steady.toml'}", "--frontdoors", "1")
        # Steps of few items, so that one always waits while another one runs.
        more = ("--dispatchers", "1", "--lanes", "2", "--max-batch-items", "4")
        self._server = ServerProcess(*flags, *more, cpus=[server_cpu])
        self._open = ExitStack()
        self.rates: dict[str, list[float]] = {"perf_analyzer": [], "loadgen": []}

    def __enter__(self) -> Self:
        self._open.enter_context(self._server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def run(self, seconds: float) -> None:
        """One round."""
        address, cpu = self._server.address, self._load_cpu
        theirs = perf_analyzer(address, self._text, CONCURRENCY, seconds, self._folder, cpu)
        self.rates["perf_analyzer"].append(theirs)
        ours = loadgen(address, MODEL_INFER, self._payloads, Load(1, CONCURRENCY, seconds), cpu)
        self.rates["loadgen"].append(float(ours["rate"]))

    def to_json(self) -> list[dict[str, Any]]:
        """For the result file."""
        return [{"name": name, "rates": rates} for name, rates in self.rates.items()]
