"""The arrows of docs/architecture.md: imports and includes go down the ladder, and each verb has one home."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from ladder import CXX, LOADGEN, PYTHON, ladder
from paths import ROOT

from fastqps.errors import StatusCode
from loadgen import built

CSRC = ROOT / "csrc"

RUNG = {name: i for i, names in enumerate(PYTHON) for name in names} | {"__main__": len(PYTHON)}
NATIVE = {"_core", "_front"}  # below everything
# fastqps-client installs these under its own name (client/fastqps_client has links to them).
SHARED = {path.stem for path in (ROOT / "client/fastqps_client").iterdir() if path.is_symlink()} - {"py"}


def includes(path: Path) -> list[str]:
    """Every included header, in quotes or brackets."""
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE)


def sources(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cpp", ".inc"))


def imports(path: Path) -> set[str]:
    """fastqps modules that a file imports, also inside functions; not those for the type checker only."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                above = path.relative_to(ROOT).parts[: -node.level]
                assert shared(path), f"{path}: relative import"
                module = ".".join((*above, module) if module else above)
            else:
                assert not (shared(path) and f"{module}.".startswith("fastqps.")), f"{path}: import relatively"
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("fastqps.")}


def shared(path: Path) -> bool:
    """Whether fastqps-client has the module, too. Then its imports must be relative: it has two absolute names."""
    return (
        path.is_relative_to(ROOT / "fastqps") and path.relative_to(ROOT / "fastqps").with_suffix("").parts[0] in SHARED
    )


def top(name: str) -> str:
    return name.split(".")[1]


@pytest.mark.parametrize("folder", CXX)
def test_cxx_includes_go_down(folder: str) -> None:
    assert sources(CSRC / folder), "the folder has moved"
    for path in sources(CSRC / folder):
        for header in includes(path):
            home = header.partition("/")[0]
            if home in CXX:
                assert home == folder or home in CXX[folder], f"{path} includes {header}"
                assert (CSRC / header).is_file(), f"{path}: write includes from csrc: {header}"
            if folder != "bind":
                assert not header.startswith("pybind11") and header != "Python.h", f"{path} sees Python"
                # Who answers calls knows the loop as a LoopControl only (transport/rpc/service.h).
                assert folder == "transport" or not header.startswith("transport/loop/"), f"{path} sees the loop"
            assert not re.match(r"(torch|ATen|c10|cuda)", header), f"{path} includes {header}"


def test_every_folder_of_csrc_has_a_rung() -> None:
    assert {p.name for p in CSRC.iterdir() if p.is_dir()} - {"tests", "bench", "model"} == set(CXX)


def test_the_ladder_of_contributing_is_this_one() -> None:
    assert ladder() in (ROOT / "CONTRIBUTING.md").read_text(), "write what `python tests/project/ladder.py` prints"


def test_what_the_clients_package_shares_is_complete() -> None:
    """Nothing in it imports a module of fastqps that fastqps-client lacks."""
    assert {"api", "client", "errors", "v1", "version"} == SHARED
    for path in (path for path in (ROOT / "fastqps").rglob("*.py") if shared(path)):
        assert {top(name) for name in imports(path)} <= SHARED, path


def test_python_imports_go_down() -> None:
    seen: set[str] = set()
    for path in sorted((ROOT / "fastqps").rglob("*.py")):
        relative = path.relative_to(ROOT).with_suffix("")
        if relative.parts == ("fastqps", "__init__"):
            continue  # names its lazy exports
        own = relative.parts[1]
        assert own in RUNG, f"{path}: give it a rung in PYTHON of tests/project/ladder.py"
        seen.add(own)
        for name in imports(path):
            other = top(name)
            if other in NATIVE or other.startswith("__") or other == own:
                continue
            assert RUNG[other] < RUNG[own], f"{path} imports {name}, which is not below it"
    assert seen == set(RUNG), f"PYTHON of tests/project/ladder.py names what is gone: {set(RUNG) - seen}"


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("fastqps", ("grpc", "torch", "fastqps._core")),
        (
            "fastqps.frontdoor.process",
            ("torch", "numpy", "fastqps.dispatcher.loop", "fastqps.runners.lane", "fastqps.runners", "fastqps.devices"),
        ),
        (
            "fastqps.dispatcher.loop",
            ("grpc", "fastqps.frontdoor.process", "fastqps._front", "fastqps.frontdoor.rare_calls"),
        ),
        (
            "fastqps.dispatcher.edge",
            ("torch", "grpc", "fastqps.frontdoor.process", "fastqps.runners.lane", "fastqps._front"),
        ),
        (
            "fastqps.supervisor.server.serve",
            ("torch", "fastqps.frontdoor.process", "fastqps.dispatcher.loop", "fastqps._front"),
        ),
        ("fastqps.client.sync", ("torch", "fastqps._core", "fastqps._front", "fastqps.models")),
        ("fastqps.process.server_process", ("torch", "grpc", "fastqps._core")),
    ],
)
def test_roles_do_not_load_each_other(module: str, never: tuple[str, ...]) -> None:
    """Front doors and dispatchers meet in the segment and nowhere else; what a role does not need it does not load."""
    code = f"import sys, {module}; print(*(name for name in {never!r} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def definitions(verb: str, folders: tuple[str, ...]) -> list[str]:
    """Where a function of this name is defined: a return type in front, a body behind."""
    pattern = rf"^[ \t]*(?:\[\[nodiscard\]\] )?[\w:<>&*]+ (\w+::)?{verb}\([^;{{}}]*\)[^;{{}}()]*{{"
    found = []
    for folder in folders:
        for path in sources(CSRC / folder):
            found += [path.relative_to(CSRC).as_posix()] * len(re.findall(pattern, path.read_text(), re.MULTILINE))
    return found


@pytest.mark.parametrize(
    ("verb", "homes"),
    [
        ("put", ["core/slab.h"]),
        ("gather", ["step/decode/decode_stepper.cpp", "step/encode/encode_stepper.cpp"]),
        ("scatter", ["step/decode/decode_stepper.cpp", "step/encode/encode_stepper.cpp"]),
        ("drain", ["core/slab.h"]),
    ],
)
def test_each_verb_has_one_definition(verb: str, homes: list[str]) -> None:
    """One for each kind of steps: an encoder's, a decoder's."""
    assert sorted(definitions(verb, ("core", "step"))) == homes


def test_run_is_the_runners() -> None:
    """``run`` of a step is the runners' and the devices', and nobody else's."""
    step = re.compile(r"def run\(self, n_items: int, n_tokens: int, n_new: int, /\)")
    files = (ROOT / "fastqps").rglob("*.py")
    defined = {p.relative_to(ROOT / "fastqps").parts[0] for p in files if step.search(p.read_text())}
    assert defined == {"runners", "devices"}


def test_what_one_vendor_alone_has_stands_in_one_module() -> None:
    """Instructions and launch options in ``fastqps/kernels``."""
    alone = re.compile(r"globaltimer|maxnreg|waves_per_eu|memrealtime|inline_asm|extra\.(?:cuda|hip)|libdevice")
    kernels = ROOT / "fastqps/kernels"
    assert [path.name for path in sorted(kernels.glob("*.py")) if alone.search(path.read_text())] == ["vendor.py"]


def test_the_load_generator_stands_alone() -> None:
    """It imports nothing of fastqps, nor of a gRPC package: only the standard library, numpy, and what is its own. Of
    fastqps only the bench imports it. Its C++ includes the folders of ``LOADGEN``, whose sources ``loadgen.built``
    compares, and its native tests share the harness and the frames of all others."""
    used = re.compile(r"^\s*(?:from|import) loadgen\b", re.MULTILINE)
    users = [path for path in (ROOT / "fastqps").rglob("*.py") if used.search(path.read_text())]
    assert {path.relative_to(ROOT / "fastqps").parts[0] for path in users} == {"bench"}
    allowed = {"loadgen", "numpy"} | sys.stdlib_module_names
    paths = sorted((ROOT / "loadgen").glob("*.py"))
    assert paths, "the folder has moved"
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= allowed, f"{path} imports {names}"
    for path in sources(ROOT / "loadgen"):
        for header in re.findall(r'#\s*include\s*"([^"]+)"', path.read_text()):
            own = (ROOT / "loadgen/csrc" / header).is_file() or (path.parent / header).is_file()
            below = header.rpartition("/")[0] in LOADGEN and (CSRC / header).is_file()
            in_test = path.parent.name == "tests" and header in ("csrc/tests/check.h", "csrc/tests/frames.h")
            assert own or below or in_test, f"{path}: {header}"
    assert {part.removeprefix("csrc/") for part in built.PARTS if part.startswith("csrc/")} == set(LOADGEN)


def test_every_relaxed_access_of_the_core_gives_its_reason() -> None:
    """``relaxed: REASON``, on its line or in a comment since the last empty line."""
    lacks = []
    for path in sources(CSRC / "core"):
        given = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            given = "relaxed: " in line or (given and bool(line.strip()))
            code = re.sub(r"compare_exchange_\w+\(.*", "", line.partition("//")[0])
            if re.search(r"\(kRelaxed\)|, kRelaxed\)", code) and not given:
                lacks.append(f"{path.name}:{number}")
    assert not lacks


def test_status_codes_are_those_of_grpc() -> None:
    """C++ and Python each list them once."""
    names = re.findall(r"^  k(\w+) = (\d+),$", (CSRC / "contract/status.h").read_text(), re.MULTILINE)
    in_cxx = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper(): int(number) for name, number in names}
    assert in_cxx == {name: int(code) for name, code in StatusCode.__members__.items()}
    assert in_cxx == {code.name: code.value[0] for code in grpc.StatusCode}
