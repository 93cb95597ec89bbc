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
    ("devices", "structure"),
    ("config", "dispatcher", "engine", "frontdoor", "telemetry"),
    ("admin",),
    ("supervisor",),
    ("bench", "doctor"),
    ("cli",),
)
# What each floor of csrc may include beside itself, low to high. Tests and benchmarks may include everything. Folders
# of one floor include each other in one direction.
CXX: dict[str, tuple[str, ...]] = {
    "contract": (),
    "core": ("contract",),
    "supervisor": ("contract", "core"),
    "text": ("contract",),
    "step": ("contract", "core"),
    "transport": ("contract", "core"),
    "h2client": ("contract", "transport"),
    "edge": ("contract", "core", "transport", "h2client"),
    "service": ("contract", "core", "text", "transport"),
    "protocols": ("contract", "core", "text", "edge", "transport", "service"),
    "bind": ("contract", "core", "supervisor", "text", "step", "transport", "h2client", "edge", "service", "protocols"),
}
CXX_CONTENTS = {
    "contract": "what all floors speak of: status codes, tasks, requests, answers, protobuf read and written in place; "
    "a model's card and a front door's settings, read from JSON",
    "core": "the shared bytes: slots, rings, wake-ups, clock, histograms",
    "supervisor": "the load of a whole server, from the counters of its processes",
    "text": "tokenizers",
    "step": "gather and scatter of slots and packed buffers (`encode`, `decode`); the devices: `cpu`, `cuda`, `sim`",
    "transport": "from the socket to a call's messages: `net`, `tls`, `framing`, `rpc` (the interface of methods and "
    "of the service), `http`, `calls`, `http1`, `http2`, `standard` (health, load reports, a page), `loop`",
    "h2client": "connections to other servers, for edges and loadgen: the socket, TLS and HTTP/2",
    "edge": "the dispatcher of an edge, which sends claimed requests to other servers: `upstream`, `messages`",
    "service": "admission, items, batches, generations, answers; knows no protocol: `formats`, `tables`, `answers`, "
    "`intake`, each of which includes only those before it",
    "protocols": "readers and writers: `oip`, `openai`, `tei`, `rerank`, `cohere`, `vllm`, `ollama`, `json`, and "
    "`step`, the items of edges",
    "bind": "the only floor that sees Python",
}
# The folders of csrc that the C++ of loadgen may include.
LOADGEN = ("contract", "core", "transport/net", "transport/tls", "transport/framing", "h2client")
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
    lines = ["C++, each folder one floor:", ""]
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
