"""The tests of what a change touches: ``make test CHANGED=1``, or ``CHANGED=REVISION`` for all since then.

The rungs of the ladder own test folders. A changed file selects the tests of its rung and a smoke set: servers of the
common protocols, a crash, a reload, and the rules of the project. ``make test`` finds what else a change can break.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from paths import ROOT

_E2E = "tests/e2e"
_REQUESTS, _PROTOCOLS, _RECOVERY = f"{_E2E}/requests", f"{_E2E}/protocols", f"{_E2E}/recovery"
_TRANSPORT = ("tests/conformance", "tests/attack", f"{_REQUESTS}/test_http.py", f"{_REQUESTS}/test_tls.py")
_MODELS = ("tests/models", "tests/generation", "tests/project/test_engine.py")
SMOKE = (
    "tests/project",
    "tests/api/test_client.py",
    f"{_REQUESTS}/test_answers.py",
    f"{_E2E}/generation/test_generation.py",
    f"{_PROTOCOLS}/test_openai.py",
    f"{_PROTOCOLS}/test_open_inference.py",
    f"{_RECOVERY}/test_http_kills.py",
    f"{_RECOVERY}/test_reload.py",
)
# By the beginning of a path, of which the longest counts: Python tests, and folders of csrc/tests.
OWNERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "csrc/core/": ((f"{_RECOVERY}/test_ledger.py", "tests/telemetry"), ("core", "service", "step")),
    "csrc/supervisor/": (("tests/telemetry",), ("core",)),
    "csrc/text/": (("tests/tokenizers",), ("text",)),
    "csrc/step/": ((f"{_E2E}/devices", "tests/devices", "tests/models"), ("step",)),
    "csrc/step/cuda/": (("tests/cuda", f"{_E2E}/devices"), ("cuda",)),
    "csrc/contract/": (("tests/api", "tests/edge"), ("service", "edge", "transport")),
    "csrc/transport/": ((*_TRANSPORT, "tests/api"), ("transport", "service")),
    "csrc/transport/net/": (_TRANSPORT, ("transport", "service", "upstream")),
    "csrc/transport/http/": ((*_TRANSPORT, _PROTOCOLS), ("transport", "json")),
    "csrc/h2client/": (("tests/edge", f"{_E2E}/edge", "tests/loadgen"), ("upstream", "edge", "loadgen")),
    "csrc/edge/": (("tests/edge", f"{_E2E}/edge"), ("edge", "upstream")),
    "csrc/service/": ((_REQUESTS, f"{_E2E}/isolation"), ("service", "json", "oip")),
    "csrc/protocols/": ((_PROTOCOLS, "tests/api"), ("json", "service")),
    "csrc/protocols/oip/": ((_PROTOCOLS, "tests/clients"), ("oip",)),
    "csrc/protocols/step/": (("tests/edge", f"{_E2E}/edge"), ("edge",)),
    "csrc/bind/": (("tests/api", "tests/devices"), ()),
    "csrc/bench/": ((), ()),
    "csrc/build.mk": (("tests/package",), ()),
    "csrc/tests/": ((), ()),
    "csrc/tests/bind/": (("tests/api",), ()),
    "csrc/tests/model/": ((), ("core",)),
    "fastqps/_native": (("tests/project",), ()),
    "fastqps/__": (("tests/package",), ()),
    "fastqps/py.typed": (("tests/package",), ()),
    "fastqps/data/": (("tests/devices",), ()),
    "fastqps/errors": (("tests/supervisor", "tests/api"), ()),
    "fastqps/files": (("tests/models",), ()),
    "fastqps/host": (("tests/devices",), ()),
    "fastqps/kernels/": (("tests/kernels", "tests/cuda"), ()),
    "fastqps/terminal": (("tests/supervisor",), ()),
    "fastqps/v1/": (("tests/api",), ()),
    "fastqps/version": (("tests/package",), ()),
    "fastqps/models/": (("tests/models", "tests/tokenizers"), ()),
    "fastqps/process/": (("tests/supervisor",), ()),
    "fastqps/api/": (("tests/api",), ()),
    "fastqps/ops/": ((*_MODELS, "tests/cuda"), ()),
    "fastqps/architectures/": (_MODELS, ()),
    "fastqps/client/": (("tests/api", "tests/package"), ()),
    "fastqps/runners/": ((*_MODELS, f"{_E2E}/devices"), ()),
    "fastqps/devices/": (("tests/devices", "tests/cuda", f"{_E2E}/devices"), ()),
    "fastqps/config/": (("tests/devices", "tests/supervisor"), ()),
    "fastqps/dispatcher/": (("tests/devices", f"{_E2E}/devices"), ()),
    "fastqps/engine/": (("tests/generation",), ()),
    "fastqps/structure/": (
        (
            "tests/generation/test_structure.py",
            "tests/generation/test_structure_sandbox.py",
            f"{_E2E}/generation/test_structured_requests.py",
        ),
        (),
    ),
    "fastqps/frontdoor/": ((_REQUESTS, _PROTOCOLS), ()),
    "fastqps/telemetry/": (("tests/telemetry",), ()),
    "fastqps/admin/": (("tests/telemetry", "tests/api"), ()),
    "fastqps/supervisor/": (("tests/supervisor", _RECOVERY), ()),
    "fastqps/bench/": (("tests/bench",), ()),
    "fastqps/doctor": (("tests/edge",), ()),
    "fastqps/cli/": (("tests/bench",), ()),
    "loadgen/": (("tests/loadgen", "tests/bench"), ("loadgen",)),
    "bench/": (("tests/bench", "tests/gpu_check"), ()),
    "bench/results/": ((), ()),
    "k8s/": (("tests/k8s",), ()),
    "Dockerfile": (("tests/k8s",), ()),
    ".dockerignore": (("tests/k8s",), ()),
    "compose.yaml": (("tests/k8s",), ()),
    "client/": (("tests/package",), ()),
    "proto/": (("tests/api",), ()),
    "examples/": (("tests/generation",), ()),
    "examples/proxies/": (("tests/proxies",), ()),
    "setup.py": (("tests/package",), ()),
    "pyproject.toml": (("tests/package",), ()),
    "packages.apt": (("tests/k8s",), ()),
    "tools/": ((), ()),
    "third_party/": ((), ("json",)),
    "docs/": (("tests/e2e/protocols/test_documented_commands.py",), ()),
    "README.md": (("tests/e2e/protocols/test_documented_commands.py",), ()),
    "tests/": ((), ()),
    "": ((), ()),  # prose and rules of the project: the smoke set
}


def owner(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tests of a file: Python tests, and folders of csrc/tests."""
    return OWNERS[max((prefix for prefix in OWNERS if path.startswith(prefix)), key=len)]


def targets(changed: list[str]) -> tuple[list[str], list[str]]:
    """(Python tests, native programs) of changed files, the smoke set among them."""
    python, native = set(SMOKE), set[str]()
    for path in changed:
        tests, programs = owner(path)
        python.update(tests)
        native.update(programs)
        if path.startswith("csrc/tests/") and path.count("/") > 2:
            native.add(path.split("/")[2])
        elif path.startswith("tests/"):
            python.update(_of_tests(path))
    native &= {test.parent.name for test in (ROOT / "csrc/tests").glob("*/test_*.cpp")} | {"loadgen"}
    return sorted(path for path in python if (ROOT / path).exists()), sorted(native)


def _of_tests(path: str) -> list[str]:
    """A test itself; of a helper, those that import it; of a conftest, its folder."""
    name = Path(path).name
    if name == "conftest.py" and path != "tests/conftest.py":
        return [str(Path(path).parent)]
    if name.startswith("test_"):
        return [path]
    return [str(found.relative_to(ROOT)) for found in (ROOT / "tests").rglob("test_*.py") if _imports(found, name)]


def _imports(test: Path, helper: str) -> bool:
    for node in ast.walk(ast.parse(test.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if helper.removesuffix(".py") in names:
            return True
    return False


def since(revision: str) -> list[str]:
    """The files that differ from a revision, those that are not committed or not known to git among them."""

    def git(*words: str) -> list[str]:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")

    return sorted({*git("diff", "--name-only", revision), *git("ls-files", "--others", "--exclude-standard")} - {""})


def main() -> None:
    """Prints the Python tests in one line, and the native programs in the next. ``1``: of the last commit, too."""
    revision = "HEAD~1" if sys.argv[1] == "1" else sys.argv[1]
    python, native = targets(since(revision))
    print(*python)
    print(*(f"build/native/test_{name}" for name in native))


if __name__ == "__main__":
    main()
