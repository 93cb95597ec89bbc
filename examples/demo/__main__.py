"""``make demo``: starts a server, uses it, loads it, checks it, drains it. Exit code 0 only if all of that is right."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from examples.demo.check import check
from examples.demo.correct import show_page, show_stream
from examples.demo.sentences import ALIKE
from examples.demo.static import show_static
from fastqps import Client
from fastqps.process.server_process import ServerError, ServerProcess

FLAGS = ("--model", "minilm", "--model", "grammar", "--model", "wordllama", "--frontdoors", "2", "--dispatchers", "3")
SECONDS, IN_FLIGHT = 10, 256
MUCH_ALIKE = 0.4


def main() -> int:
    """0: every answer came and every checked one was right."""
    print(f"1. Start a server: fastqps serve {' '.join(FLAGS)}")
    try:
        with ServerProcess(*FLAGS) as server:
            print(f"   ready after {server.ready_after_s:.1f} s: gRPC on {server.address}, pages on {server.admin}\n")
            show_similarity(server.address)
            print(
                "3. Correct sentences with the grammar model, a decoder of 1.9 million parameters, in the same server"
            )
            show_stream(server.address)
            worse = show_page(server.address)
            with tempfile.TemporaryDirectory() as folder:
                kept = Path(folder) / "kept.npz"
                failed = show_load(server.address, kept)
                wrong = show_check(kept)
                wrong = show_static(server.address, Path(folder)) or wrong
            print("7. Drain the server: SIGTERM, open requests are finished, then it ends")
            code = server.drain()
            print(f"   exit code {code}")
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if worse or failed or wrong or code else 0


def show_similarity(address: str) -> None:
    """A few sentences, and how alike their embeddings are."""
    with Client(address) as client:
        vectors = client.embed(ALIKE)
    print(f"2. Embed {len(ALIKE)} sentences over gRPC: {vectors.shape[1]} numbers each. How alike are they?")
    print("   1 is the same meaning, 0 nothing in common; * marks sentences that say much the same.\n")
    alike = vectors @ vectors.T
    width = max(map(len, ALIKE))
    print(" " * (width + 6) + "".join(f"{i:>7}" for i in range(1, len(ALIKE) + 1)))
    for i, sentence in enumerate(ALIKE):
        marks = ["*" if j != i and value > MUCH_ALIKE else " " for j, value in enumerate(alike[i])]
        cells = "".join(f"{value:>6.2f}{mark}" for value, mark in zip(alike[i], marks, strict=True))
        print(f"   {i + 1}  {sentence:<{width}} {cells}".rstrip())
    print()


def show_load(address: str, kept: Path) -> bool:
    """Load from a second process. True if a call failed."""
    print(f"4. Load MiniLM for {SECONDS} s from a client process in Python: {IN_FLIGHT} calls always in flight")
    command = [sys.executable, "-m", "examples.demo.load", address, str(SECONDS), str(IN_FLIGHT), str(kept)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=SECONDS + 60)
    found: dict[str, Any] = json.loads(done.stdout)
    latency = ", ".join(f"{name} {value:.0f} ms" for name, value in found["latency_ms"].items())
    print(f"   {found['answers']:,} sentences embedded, {found['rate']:,.0f} per second; latency {latency}")
    print(f"   (latency is queueing here: {IN_FLIGHT} calls share what the cores can compute)")
    print("   where a request's time goes, medians:")
    print("   " + ", ".join(f"{stage} {_time(us)}" for stage, us in found["stage_us"].items()))
    for failure, count in found["failures"].items():
        print(f"   FAILED {count} times: {failure}")
    print()
    return bool(found["failures"]) or not found["answers"]


def show_check(kept: Path) -> bool:
    """A sample of the answers against the model itself. True if one was wrong, or none could be checked."""
    print("5. Check a sample of the answers against fastqps.Engine: the same model in this process, without a server")
    verdict = check(kept)
    print(f"   {verdict.checked - verdict.wrong} of {verdict.checked} right; ", end="")
    print(f"the worst differs by {verdict.worst:.1e} in a component (cosine {verdict.cosine:.6f})\n")
    return verdict.wrong > 0 or verdict.checked == 0


def _time(us: float) -> str:
    return f"{us / 1000:.0f} ms" if us >= 1000 else f"{us:.0f} µs" if us >= 1 else "< 1 µs"


if __name__ == "__main__":
    sys.exit(main())
