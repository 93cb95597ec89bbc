"""The Dockerfile, as far as it can be proved without running it: what it copies is there, and it fits the manifests."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import tomllib

import pytest
import yaml
from paths import ROOT

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


def words_of(instruction: str, name: str) -> tuple[str, ...]:
    """The JSON list of words that the last such instruction has."""
    return tuple(json.loads(last(name, instruction)))


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


def test_the_images_run_without_root_as_the_manifests_say() -> None:
    base = yaml.safe_load((ROOT / "k8s/base/deployment.yaml").read_text())["spec"]["template"]["spec"]
    assert list(STAGES)[-1] == "cpu", "what a build without --target makes"
    for target in ("cpu", "gpu"):
        user = last(target, "USER")
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number, or Kubernetes cannot tell that it is not root"
        assert [base["securityContext"][key] for key in ("runAsUser", "runAsGroup")] == [*map(int, user.split(":"))]
        mounts = {mount["mountPath"] for mount in base["containers"][0]["volumeMounts"]}
        assert mounts == {"/tmp", "/etc/fastqps", last(target, "VOLUME")}
        assert last(target, "STOPSIGNAL") == "SIGTERM"
        ports = [str(port) for port in (Config().port, Config().http_port, Config().admin_port)]
        assert last(target, "EXPOSE").split() == ports
        assert (*words_of("ENTRYPOINT", target), *words_of("CMD", target)) == ("fastqps", "serve")


def test_compose_runs_the_image_as_closed_as_the_manifests_do() -> None:
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["fastqps"]
    assert service["build"]["target"] in STAGES and f"-t {service['image']} ." in (ROOT / "Dockerfile").read_text()
    assert [port.rpartition(":")[2] for port in service["ports"]] == last("cpu", "EXPOSE").split()
    assert [volume.partition(":")[2] for volume in service["volumes"]] == [last("cpu", "VOLUME")]
    assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, "/tmp", ["ALL"])
    assert int(service["stop_grace_period"].removesuffix("s")) == Config().drain_timeout_ns / 1e9 + 20


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
