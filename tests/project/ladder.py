"""The rungs of the project: what may import or include what. ``python tests/project/ladder.py`` prints them.

CONTRIBUTING.md has what it prints. A package imports from lower rungs and from itself; packages of one rung do not know
each other.
"""

from __future__ import annotations

import ast

from paths import ROOT

# Low to high.
PYTHON = (
    ("_native", "errors", "files", "host", "kernels", "terminal", "v1", "version"),
    ("models", "process"),
    ("api", "ops"),
    ("architectures", "client"),
    ("runners",),
    ("devices",),
    ("config", "dispatcher", "engine", "frontdoor", "telemetry"),
    ("admin",),
    ("supervisor",),
    ("bench", "doctor"),
    ("cli",),
)
# What each folder of csrc may include beside itself, low to high. Tests and benchmarks may include everything.
CXX: dict[str, tuple[str, ...]] = {
    "core": (),
    "text": ("core",),
    "step": ("core",),
    "wire": ("core", "text"),
    "net": ("core",),
    "grpc": ("core", "text", "wire", "net"),
    "h2client": ("core", "net"),
    "upstream": ("core", "net", "grpc", "h2client"),
    "edge": ("core", "wire", "net", "grpc", "h2client", "upstream"),
    "http": ("core", "text", "grpc"),
    "calls": ("core", "net", "grpc", "http"),
    "http1": ("core", "net", "grpc", "http", "calls"),
    "http2": ("core", "net", "grpc", "http", "calls"),
    "front": ("core", "net", "grpc", "http", "calls", "http1", "http2"),
    "predict": ("core", "text", "wire", "net", "grpc", "http", "front"),
    "json": ("core", "wire", "predict"),
    "oip": ("core", "text", "wire", "grpc", "http", "predict", "json"),
    "openai": ("core", "text", "wire", "grpc", "http", "predict", "json"),
    "tei": ("core", "text", "wire", "grpc", "http", "predict", "json"),
    "rerank": ("core", "wire", "grpc", "http", "predict", "json", "tei"),
    "step_service": ("core", "wire", "grpc", "predict"),
    "bind": (
        *("core", "text", "step", "wire", "net", "grpc", "h2client", "upstream", "http", "calls", "front"),
        *("predict", "json", "oip", "openai", "tei", "rerank", "step_service", "edge"),
    ),
}
CXX_CONTENTS = {
    "core": "the shared bytes: slots, rings, wake-ups, clock, histograms",
    "text": "tokenizers",
    "step": "gather and scatter of slots and packed buffers (`encode`, `decode`); the devices: `cpu`, `cuda`, `sim`",
    "wire": "protobuf messages, read and written in place",
    "net": "sockets, TLS, timers, and the interface of a session; knows no HTTP",
    "grpc": "messages, status codes, compression, methods, and the standard services; knows no call",
    "h2client": "connections to other servers, for `upstream` and loadgen: the socket, TLS and HTTP/2",
    "upstream": "calls to other servers: gRPC, from the client's side",
    "edge": "the dispatcher of an edge: it sends claimed requests to other servers",
    "http": "plain HTTP requests, routes, errors and the writer of JSON, whatever version carries them",
    "calls": "one call from its first header to its status, whatever protocol carries it",
    "http1": "the session that speaks HTTP/1.1",
    "http2": "the session that speaks HTTP/2",
    "front": "the event loop of a front door",
    "predict": "the service: admission, items, batches, generations, answers",
    "json": "request bodies read by simdjson",
    "oip": "the Open Inference Protocol: requests of Triton's and KServe's clients",
    "openai": "OpenAI's API: embeddings, completions",
    "tei": "the APIs of text-embeddings-inference, over gRPC and (`http`) HTTP",
    "rerank": "the rerank API of Cohere and Jina",
    "step_service": "the items of edges: the internal service by which they send their steps",
    "bind": "the only folder that sees Python",
}
# What the C++ of loadgen may include of csrc.
LOADGEN = ("core", "wire", "net", "grpc", "h2client")
# Beside the ladders.
BESIDE = (
    "`loadgen/` is below the Python ladder: it imports nothing from fastqps. Only `bench` imports it, for texts, units",
    "and files, and runs it as a program. Its C++ is `loadgen/csrc`, a separate extension; it includes of `csrc` "
    + ", ".join(f"`{name}`" for name in LOADGEN)
    + ".",
    "`bench/` and `examples/` are outside the ladder and use only the public interface. They are not installed.",
)


def ladder() -> str:
    """Both ladders as Markdown."""
    lines = ["C++, each folder one rung:", ""]
    for i, (folder, below) in enumerate(CXX.items(), 1):
        seen = f" (includes {', '.join(f'`{name}`' for name in below)})" if below else ""
        lines.append(f"{i}. `csrc/{folder}`: {CXX_CONTENTS[folder]}{seen}")
    lines += ["", "Python, where packages of one rung do not import each other:", ""]
    for i, rung in enumerate(PYTHON, 1):
        lines += [f"{i}. " + "\n   ".join(f"`{name}`: {_summary(name)}" for name in rung)]
    lines += ["", *BESIDE]
    return "\n".join(lines) + "\n"


def _summary(name: str) -> str:
    """The first paragraph of a package's or module's docstring."""
    path = ROOT / "fastqps" / name
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text()))
    assert text, f"{source} has no docstring"
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`")


if __name__ == "__main__":
    print(ladder(), end="")
