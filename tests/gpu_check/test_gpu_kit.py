"""A GPU machine without a network: what `make gpu-kit` gathers is enough to build, and a lack is reported at once.

The machine is this one with a g++ that finds no development package but its own, and a Python without packages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bare_compiler import bare_compiler
from paths import ROOT

pytestmark = [pytest.mark.compute, pytest.mark.timeout(900)]  # downloads, and reads all sources

DOWNLOAD_FAILED = 75  # tools/gpu_kit.sh
BUILD_S = 3600  # of all extensions, on two cores that do other things

# Instead of the suite it says how the suite would run.
PYTHON = """#!/bin/bash
[ "$1 $2" = "-m bench.gpu" ] || exec %s "$@"
echo "the suite starts"
echo "libraries: ${LD_LIBRARY_PATH:-}"
"""


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kit for this Python, gathered without the system's package lists, which a clean machine may lack."""
    folder = tmp_path_factory.mktemp("kit")
    (folder / "apt.conf").write_text(f'Dir::State::lists "{folder}/lists";\n')
    environment = {
        **os.environ,
        "APT_CONFIG": str(folder / "apt.conf"),
        "KIT": str(folder / "kit"),
        "KIT_PYTHON": ".".join(map(str, sys.version_info[:2])),
        "PYTHON": sys.executable,
    }
    command = [ROOT / "tools/gpu_kit.sh"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == DOWNLOAD_FAILED and not os.environ.get("CI"):
        pytest.skip(f"the kit cannot be downloaded: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert re.match(r"gpu-kit: \d+ MiB in ", done.stdout)
    return folder / "kit"


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> str:
    return bare_compiler(tmp_path_factory.mktemp("bare"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the checkout in which nothing is built."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "tree" / name)
    return tmp_path / "tree"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Without what would add to the kit."""
    for name in ("CPLUS_INCLUDE_PATH", "LD_LIBRARY_PATH", "LDFLAGS", "LIBRARY_PATH", "PYTHONPATH", "FASTQPS_NGHTTP2"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def check(tree: Path, kit: Path, cxx: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Runs tools/gpu_check.sh of this tree up to the start of the suite."""
    wrapper = kit.parent / "python3"
    wrapper.write_text(PYTHON % python)
    wrapper.chmod(0o755)
    environment = {**os.environ, "KIT": str(kit), "PYTHON": str(wrapper), "CC": cxx, "CXX": cxx}
    command = [tree / "tools/gpu_check.sh"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def without_packages() -> str:
    """A Python that has its standard library and what PYTHONPATH names."""
    return f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]} -S -s"


@pytest.mark.nightly  # it downloads them; in between, the other tests check what a lack of them says
def test_the_kit_holds_the_python_packages(kit: Path, compiler: str, tree: Path) -> None:
    done = check(tree, kit, compiler, without_packages())
    [missing] = done.stderr.splitlines()[1:]
    assert missing.startswith("  Python packages that a kit does not hold: torch numpy safetensors ")


def test_everything_that_is_missing_is_reported_at_once(
    compiler: str, tree: Path, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sysconfig.py").write_text("def get_path(name): return '/nowhere'\n")
    environment.setenv("PYTHONPATH", str(tmp_path))
    done = check(tree, tmp_path / "kit", compiler, without_packages())
    assert (done.returncode, done.stdout) == (1, "")
    title, *missing = done.stderr.splitlines()
    assert title == "gpu-check: missing on this machine:"
    found = {line.partition(": ")[0].strip(): line.partition(": ")[2].split(" (")[0].split() for line in missing}
    assert {"torch", "transformers", "setuptools"} <= set(found["Python packages that a kit does not hold"])
    assert {"grpc", "google.protobuf", "pybind11"} <= set(found["Python packages"])
    assert {
        "nghttp2/nghttp2.h",
        "openssl/ssl.h",
        "zlib.h",
        "nlohmann/json.hpp",
        "simdjson.h",
        "boost/beast/http/basic_parser.hpp",
    } <= set(found["C++ headers"])
    assert found["libraries to link"] == ["crypto", "nghttp2", "simdjson", "ssl", "z"]
    assert found["Python's headers, which Triton and the build need"] == ["/nowhere/Python.h"]
    assert ["run make gpu-kit KIT_PYTHON=" in line for line in missing] == [False, True, False, True, True]
    assert not (tree / "build").exists()


def test_a_missing_compiler_is_reported_with_the_rest(tree: Path, tmp_path: Path) -> None:
    done = check(tree, tmp_path / "kit", "no-such-compiler", without_packages())
    assert [line.split(": ")[-1] for line in done.stderr.splitlines()[-2:]] == 2 * ["no-such-compiler"]


def test_a_kit_for_another_python_is_named(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    (kit / "python").mkdir(parents=True)
    (kit / "versions").write_text("python cp39\n")
    done = check(ROOT, kit, "g++", without_packages())
    assert f"the kit in {kit} is for Python 3.9, and this is 3." in done.stderr


def test_a_library_of_the_kit_is_used_where_the_machine_has_none(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    (kit / "python").mkdir(parents=True)
    (kit / "versions").write_text("python cp39\n")
    for package, library in (("here", "libc.so.6"), ("absent", "libabsent.so.9"), ("half", "libdl.so.2")):
        (kit / "usr/run" / package).mkdir(parents=True)
        (kit / "usr/run" / package / library).touch()
    (kit / "usr/run/half/libabsent.so.8").touch()
    done = check(ROOT, kit, "g++")
    assert done.stdout == f"the suite starts\nlibraries: {kit}/usr/run/absent:{kit}/usr/run/half\n", done.stderr


def test_the_extensions_run_with_every_openssl_3() -> None:
    """Built with the headers of one release, they may meet the library of another: both have to know each symbol."""
    for pattern in ("fastqps/_front*.so", "loadgen/_native*.so"):
        [extension] = ROOT.glob(pattern)
        command = ["readelf", "--version-info", "--wide", extension]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert set(re.findall(r"Name: (OPENSSL_\S+)", told)) == {"OPENSSL_3.0.0"}


@pytest.mark.nightly  # it compiles all of csrc; in between, the other tests check what the kit holds
@pytest.mark.timeout(BUILD_S)
def test_extensions_built_from_the_kit_alone_load(
    kit: Path, compiler: str, tree: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("PYTHONPATH", str(kit / "python/pybind11"))
    done = check(tree, kit, compiler)
    assert "the suite starts" in done.stdout, done.stderr
    code = (
        "import fastqps._core, fastqps._front as front, loadgen._native as load; print(front.__file__, load.__file__)"
    )
    command = [sys.executable, "-c", code]
    environment.delenv("PYTHONPATH")
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    assert all(Path(name).is_relative_to(tree) for name in done.stdout.split())
