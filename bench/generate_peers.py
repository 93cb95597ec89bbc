"""Llamas from token ids to token ids, by fastqps in process, OpenVINO GenAI and CTranslate2, on one core and on two.

Every runtime has the same weights and prompts, the same number of requests running, as many threads as cores, and makes
the same number of tokens of each prompt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.peers.llamas import SIZES, Llama, write_llama
from bench.peers.process import GENERATORS_FOLDER, GENERATORS_PYTHON, converted_llama, install_peers, peer_process
from bench.runner import LOAD_CPU, SERVER_CPU, Bench, Claim, Subject
from fastqps.bench.results.result import BenchError
from fastqps.host.machine import bfloat16_flags, cpu_flags

FIRST_EQUAL_LEAST = 0.5  # of all answers begin as in fp32: with fewer, something else than rounding is wrong
_PEERS = {"OpenVINO GenAI": "openvino", "CTranslate2": "ctranslate2"}
_OURS = {"fp32": ("float32", "none"), "bf16": ("bfloat16", "none"), "int8": ("auto", "int8")}
_LED = "OpenVINO GenAI int8"  # the fastest of them
# The least ratio to it, and the goal, by Llama and our kind: on two cores with AMX.
_ASKED = {("135M", "int8"): (1.3, 2.0), ("135M", "bf16"): (0.8, 1.2), ("10M", "int8"): (1.5, 2.5)}


def measure_peers(bench: Bench) -> None:
    """Both cores, then one. ``BenchError`` where a runtime answers something else."""
    peers = install_peers(_PEERS, bench.facts)
    for name in SIZES:
        llama = write_llama(name, GENERATORS_FOLDER)
        for cpus in ((SERVER_CPU, LOAD_CPU), (SERVER_CPU,)):
            with ExitStack() as stack:
                cores = _Cores(replace(bench, stack=stack), name, llama, cpus)
                cores.bench.measure(cores.subjects(peers), cores.claims())


class _Cores:
    """All runtimes with one Llama on the same cores. Their programs end with ``bench``."""

    def __init__(self, bench: Bench, name: str, llama: Llama, cpus: tuple[int, ...]) -> None:
        self.bench, self._name, self._llama, self._cpus = bench, name, llama, cpus
        self._at = f"Llama of {name}, {len(cpus)} core{'s'[: len(cpus) - 1]}"
        self._prompts = llama.path / "prompts.json"
        self._notes: dict[str, str] = {}  # by runtime

    def subjects(self, peers: Iterable[str]) -> Iterator[Subject]:
        """Peers and our own, each started when it is yielded."""
        for peer in peers:
            model = converted_llama(_PEERS[peer], self._llama.path)
            yield self._started(f"{peer} int8", _PEERS[peer], str(model), python=GENERATORS_PYTHON)
        for kind, (dtype, quantization) in _OURS.items():
            if kind != "bf16" or bfloat16_flags():
                name = f"fastqps {kind}"
                yield self._started(name, "fastqps", str(self._llama.path), dtype, quantization)

    def _started(self, name: str, runtime: str, *arguments: str, python: Path = Path(sys.executable)) -> Subject:
        arguments = ("generators", runtime, str(len(self._cpus)), *arguments, str(self._prompts))
        peer = self.bench.start(peer_process(*arguments, cpus=self._cpus, python=python))
        if name == "fastqps fp32":
            self._llama.check_exact(peer.answers)
        equal = self._llama.first_equal(peer.answers)
        if equal < FIRST_EQUAL_LEAST:
            raise BenchError(
                f"{self._at}: {name}: {100 * equal:.0f} % of the answers begin as in fp32, "
                f"at least {100 * FIRST_EQUAL_LEAST:.0f} % must"
            )
        self._notes[name] = f"{peer.way}; first token as in fp32: {100 * equal:.0f} %"
        print(f"{self._at}: {name} has started", flush=True)
        return Subject(f"{self._at}: {name}", lambda: peer.run(self.bench.seconds))

    def claims(self) -> Iterator[Claim]:
        """The rate of each, then how ours compare with each peer."""
        for name, note in self._notes.items():
            yield Claim(f"{self._at}: {name}", "requests/s", f"{self._at}: {name}", note=note)
        asked = _ASKED if len(self._cpus) > 1 and "amx_int8" in cpu_flags() else {}
        for peer in (f"{peer} int8" for peer in _PEERS if f"{peer} int8" in self._notes):
            for kind in (kind for kind in _OURS if f"fastqps {kind}" in self._notes):
                ours, theirs = f"{self._at}: fastqps {kind}", f"{self._at}: {peer}"
                marks = asked.get((self._name, kind), (None, None)) if peer == _LED else (None, None)
                yield Claim(f"{ours} over {peer}", "×", ours, theirs, *marks)
                yield Claim("… by CPU time", "×", theirs, ours, figure="cpu_us", note="µs of a request")
