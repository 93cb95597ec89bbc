"""The Dockerfile, as far as it can be proved without an engine: what it copies is there, what comes out of it runs.

The wheel is built from exactly the files that .dockerignore lets in, installed into an empty environment, and
serves from there. Compiling the extensions as the image does takes minutes: that is for `make nightly`.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from paths import ROOT
from serving import PATIENCE_S, READY, until

import fastqps
from fastqps.cli.parser import ArgumentParser
from fastqps.cli.serve import add_arguments
from fastqps.config import Config

pytestmark = pytest.mark.compute

Stage = list[tuple[str, str]]


def stages() -> dict[str, Stage]:
    """The Dockerfile's stages: name → (instruction, its words)."""
    text = (ROOT / "Dockerfile").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, words = line.partition(" ")
        words = " ".join(words.split())
        if instruction == "FROM":
            source, _, name = words.partition(" AS ")
            found[name] = [("FROM", source)]
        else:
            found[[*found][-1]].append((instruction, words))
    return found


STAGES = stages()


def serve_parser() -> ArgumentParser:
    parser = ArgumentParser()
    add_arguments(parser)
    return parser


def whole(name: str) -> Stage:
    """A stage with those that it is made from, first ones first."""
    (_, source), *own = STAGES[name]
    return [*(whole(source) if source in STAGES else [("FROM", source)]), *own]


def last(name: str, instruction: str) -> str:
    return [words for found, words in whole(name) if found == instruction][-1]


def packages(name: str) -> set[str]:
    """What apt-get installs in a stage and those below it."""
    found = " ".join(words for instruction, words in whole(name) if instruction == "RUN")
    lists = re.findall(r"apt-get install -y --no-install-recommends ([^&]+)", found)
    return {word for words in lists for word in words.split()}


def ignored(path: str) -> bool:
    """What .dockerignore keeps out: the last pattern that fits decides."""
    out = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        places = [pattern, pattern.removeprefix("**/")] if pattern.startswith("**/") else [pattern]
        above = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)]
        fits = any(_fits(part, place) for part in above for place in places)
        if fits:
            out = not line.strip().startswith("!")
    return out


def _fits(path: str, pattern: str) -> bool:
    same_depth = path.count("/") == pattern.count("/") or pattern.startswith("**/")
    return same_depth and fnmatch.fnmatchcase(path, pattern)


def context() -> list[str]:
    """The tracked files that a build sees."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    return [path for path in listed if path and not ignored(path)]


# ---- the file


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("setup.py", False),
        ("csrc/core/ring.h", False),
        ("csrc/tests/core/stress_core.cpp", True),
        ("fastqps/telemetry/live/page.html", False),
        ("fastqps/_core.cpython-311-x86_64-linux-gnu.so", True),
        ("fastqps/__pycache__/cli.cpython-311.pyc", True),
        (".git/config", True),
        ("tests/support/servers/serving.py", True),
        ("docs/gpu.md", True),
    ],
)
def test_what_a_build_sees(path: str, out: bool) -> None:
    assert ignored(path) is out


def test_what_is_copied_is_there() -> None:
    seen = context()
    for name in STAGES:
        for instruction, words in STAGES[name]:
            if instruction != "COPY":
                continue
            *sources, _ = [word for word in words.split() if not word.startswith("--")]
            if found := re.search(r"--from=(\S+)", words):
                assert found[1] in STAGES
                text = " ".join(w for i, w in whole(found[1]) if i == "RUN")
                assert all(source in text for source in sources), "the stage makes it"
            else:
                for source in sources:
                    assert any(path == source or path.startswith(f"{source}/") for path in seen), source


def test_the_stages_have_the_packages_that_they_need() -> None:
    """What a machine needs for building is in packages.apt; what it needs for running are the libraries of these."""
    required = (ROOT / "packages.apt").read_text().partition("# optional")[0]
    wanted = {line.split()[0] for line in required.splitlines() if line and not line.startswith("#")}
    assert wanted <= packages("wheel")
    libraries = {
        "libnghttp2-dev": "libnghttp2-14",
        "libsimdjson-dev": "libsimdjson14",
        "libssl-dev": "libssl3",
        "zlib1g-dev": "zlib1g",
    }
    headers = {"libboost1.81-dev"}  # has no library of its own here
    own = {name for name in wanted if name.startswith("lib") or name == "zlib1g-dev"} - headers
    assert own == set(libraries), "a library more or less"
    for target in ("cpu", "gpu"):
        assert set(libraries.values()) | {"python3"} <= packages(target)
    assert "gcc" in packages("gpu") and "gcc" not in packages("cpu"), "Triton compiles at run time, nothing else does"


def test_the_images_run_without_root_and_by_default_as_the_manifests_say() -> None:
    deployment = (ROOT / "k8s" / "base" / "deployment.yaml").read_text()
    assert list(STAGES)[-1] == "cpu", "what a build without --target makes"
    for target in ("cpu", "gpu"):
        user = last(target, "USER")
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number, or Kubernetes cannot tell that it is not root"
        assert f"runAsUser: {user.partition(':')[0]}" in deployment
        assert last(target, "ENTRYPOINT") == '["fastqps"]' and last(target, "STOPSIGNAL") == "SIGTERM"
        environment = " ".join(words for instruction, words in whole(target) if instruction == "ENV")
        assert "PATH=/opt/fastqps/bin:$PATH" in environment


def test_each_exposed_port_is_reachable_from_outside_of_the_container() -> None:
    """What a process binds to the loopback address of a container, no published port reaches."""
    for target in ("cpu", "gpu"):
        command, *flags = json.loads(last(target, "CMD"))
        assert command == "serve"
        options = vars(serve_parser().parse(flags))
        assert last(target, "EXPOSE").split() == [
            str(port) for port in (Config().port, Config().http_port, Config().admin_port)
        ]
        assert (options["host"], options["admin_host"]) == ("0.0.0.0", "0.0.0.0")


def test_extras_are_installed_from_a_checkout() -> None:
    """Nothing is published: an install by the project's name from the package index would fail."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = set()
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "k8s" / "README.md"]:
        assert "pip install 'fastqps" not in page.read_text(), f"{page.name} installs from an index"
        found |= set(re.findall(r"pip install -e '\.\[(\w+)\]'", page.read_text()))
    assert found and found <= set(extras)


def test_the_torch_and_the_extras_are_the_project_s() -> None:
    torch = re.search(r"\|\| echo (torch==[\d.]+)\)", (ROOT / "tools/setup.sh").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "Dockerfile").read_text()
    assert torch and set(re.findall(r"torch==[\d.]+", text)) == {torch[1]}
    for extras in re.findall(r"whl\)\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= set(project["optional-dependencies"])


# ---- what comes out of it


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the build, and no others."""
    folder = tmp_path_factory.mktemp("context")
    for path in context():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    return folder


def built(tree: Path, folder: Path, **environment: str) -> Path:
    """An empty environment with the wheel of ``tree``; torch and the rest are this environment's."""
    pip = [sys.executable, "-m", "pip"]
    build = [*pip, "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(folder), str(tree)]
    done = subprocess.run(build, capture_output=True, text=True, env={**os.environ, **environment}, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", symlinks=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    install = [*pip, "install", "-q", "--no-deps", "--target", str(packages), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, cwd=folder)
    (here,) = (path for path in map(Path, sys.path) if (path / "torch").is_dir())
    (packages / "others.pth").write_text(f"{here}\n")
    return packages


def serves(packages: Path, folder: Path) -> None:
    """A server of that environment answers, generates nothing by itself, and ends."""
    python = packages.parents[2] / "bin" / "python"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    where = subprocess.run(
        [python, "-c", "import fastqps; print(fastqps.__file__)"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert where.stdout.strip().startswith(str(packages)), "the wheel's, not the source tree's"
    log = folder / "log"
    flags = ["--device=null", "--model=grammar", "--port=0", "--admin-port=0", "--http-port=off"]
    with log.open("w") as out:
        server = subprocess.Popen([python, "-m", "fastqps", "serve", *flags], cwd=folder, env=environment, stderr=out)
    try:
        until(lambda: READY.search(log.read_text()) or server.poll() is not None, "ready")
        ready = READY.search(log.read_text())
        assert ready, log.read_text()
        with fastqps.Client(ready[1], model="grammar") as client:
            assert client.predict("She have a apple.").usage.input_tokens
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        server.kill()
        server.wait(10)


def test_the_wheel_holds_all_that_a_server_needs(tree: Path, tmp_path: Path) -> None:
    """Everything but the compiled extensions, which are those of this tree."""
    packages = built(tree, tmp_path, FASTQPS_PYTHON_ONLY="1")
    for package in ("fastqps", "loadgen"):
        for extension in (ROOT / package).glob("*.so"):
            shutil.copy(extension, packages / package)
    tracked = {path for path in context() if path.startswith(("fastqps/", "loadgen/")) and "/csrc/" not in path}
    missing = {path for path in tracked if not (packages / path).is_file()}
    assert not missing, f"package-data in pyproject.toml does not name {missing}"
    serves(packages, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_wheel_compiles_from_what_the_build_sees(tree: Path, tmp_path: Path) -> None:
    serves(built(tree, tmp_path), tmp_path)
