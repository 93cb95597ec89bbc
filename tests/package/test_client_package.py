"""fastqps-client: what its wheel holds answers a program that has neither fastqps nor torch."""

from __future__ import annotations

import glob
import json
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT
from serving import PATIENCE_S, Server

import fastqps

ASK = Path(__file__).parent / "ask.py"
PROJECTS = ("client/pyproject.toml", "pyproject.toml")
DEPENDENCIES = {"grpc", "numpy", "google"}
# Python's own, and what grpc imports if it is there.
OTHERS = {"fastqps_client", "typing_extensions", "cython_runtime", "grpc_health", "grpc_reflection", "grpc_tools"}
OTHERS |= sys.stdlib_module_names
BLOCKED = ("fastqps", "torch", "uvloop", "tokenizers", "safetensors")
# A module that is None in sys.modules cannot be imported.
RUN = f"""
import runpy, sys
site, program, address = sys.argv[1:]
sys.modules |= dict.fromkeys({BLOCKED!r})
sys.path.insert(0, site)
sys.argv = [program, address]
runpy.run_path(program, run_name="__main__")
"""


def build(source: Path, folder: Path, *flags: str) -> Path:
    """The wheel of a copy of `source`, because a build leaves files beside its sources."""
    copy = folder / source.name
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "-q", "wheel", "--no-deps", *flags, "--wheel-dir", str(folder), str(copy)]
    subprocess.run(pip, check=True, timeout=PATIENCE_S)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check(run: list[str], server: Server) -> None:
    """The program `run` is answered as fastqps.Client is, and has loaded nothing of the server."""
    done = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    with fastqps.Client(server.address) as client:
        expected = client.embed(["a text", "another"]).tolist()
    for kind in ("sync", "async"):
        assert found[kind]["embed"] == expected
        assert found[kind]["stream"] == expected
    assert found["sync"]["models"] == ["wordllama"] and found["sync"]["ready"]
    assert "dimensions" in found["sync"]["refused"]
    loaded = {name for name in found["loaded"] if not name.startswith("_")}
    assert loaded - OTHERS == DEPENDENCIES


def test_the_wheel_answers_without_fastqps_and_torch(serve: Callable[..., Server], tmp_path: Path) -> None:
    wheel = build(ROOT / "client", tmp_path, "--no-build-isolation")
    assert wheel.name == f"fastqps_client-{fastqps.__version__}-py3-none-any.whl", "pure Python"
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    assert files(site / "fastqps_client") == files(ROOT / "client/fastqps_client"), "every module is packed"
    server = serve("--device=cpu", "--model=wordllama")
    check([sys.executable, "-I", "-c", RUN, str(site), str(ASK), server.address], server)


def files(package: Path) -> set[str]:
    found = glob.iglob("**/*", root_dir=package, recursive=True)  # follows links, unlike Path.rglob
    return {name for name in found if (package / name).is_file() and not name.endswith(".pyc")}


def test_it_has_the_names_of_fastqps_that_need_no_server() -> None:
    code = "import fastqps_client; print(*fastqps_client.__all__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "client", capture_output=True, text=True, check=True)
    assert {*fastqps.__all__} - {*done.stdout.split()} == {
        "ConfigError",
        "DeviceError",
        "Engine",
        "ModelError",
        "Tokenizer",
    }
    assert not {*done.stdout.split()} - {*fastqps.__all__}


def test_its_requirements_are_those_of_fastqps() -> None:
    own, servers = (tomllib.loads((ROOT / file).read_text())["project"] for file in PROJECTS)
    assert {*own["dependencies"]} < {*servers["dependencies"]}
    assert own["requires-python"] == servers["requires-python"]


def test_both_packages_can_be_imported_in_one_process() -> None:
    """They share the messages, so that each reads what the other makes."""
    code = (
        "import fastqps, fastqps_client\n"
        "from fastqps.v1.predict_pb2 import PredictRequest as one\n"
        "from fastqps_client.v1.predict_pb2 import PredictRequest as other\n"
        "assert one is other and fastqps.Client is not fastqps_client.Client"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "client", check=True, timeout=PATIENCE_S)


@pytest.mark.nightly
def test_pip_installs_it(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Into an empty environment, with its dependencies from the index."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    pip = [str(python), "-m", "pip", "-q"]
    subprocess.run([*pip, "install", str(build(ROOT / "client", tmp_path))], check=True, timeout=300)
    subprocess.run([*pip, "check"], check=True, timeout=PATIENCE_S)
    server = serve("--device=cpu", "--model=wordllama")
    check([str(python), str(ASK), server.address], server)
