"""What comes out of the Dockerfile serves, wherever it can be proved without an engine.

The wheel is built from exactly the files that .dockerignore lets in, and installed into an empty environment, from
which containers of the image serve. Compiling the extensions as the image does takes minutes, so that is nightly.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path
from typing import Any

import container
import pytest
from fake_hub import FakeHub
from paths import ROOT
from serving import PATIENCE_S
from test_image import context, last, whole, words_of

in_a_container = pytest.mark.skipif(not container.HERE, reason="no ip, or namespaces are not allowed")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the build, and no others."""
    folder = tmp_path_factory.mktemp("context")
    for path in context():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    return folder


def built(tree: Path, folder: Path, **environment: str) -> Path:
    """The packages of an empty environment with the wheel of ``tree``; torch and the rest are this environment's."""
    pip = [sys.executable, "-m", "pip"]
    build = [*pip, "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(folder), str(tree)]
    done = subprocess.run(build, capture_output=True, text=True, env={**os.environ, **environment}, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", symlinks=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    install = [*pip, "--python", str(folder / "venv"), "install", "-q", "--ignore-installed", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, cwd=folder)
    (packages / "others.pth").write_text(f"{container.PACKAGES}\n")
    return packages


@pytest.fixture(scope="module")
def installed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of an environment with the wheel; its compiled extensions are those of this tree."""
    packages = built(tree, tmp_path_factory.mktemp("installed"), FASTQPS_PYTHON_ONLY="1")
    for package in ("fastqps", "loadgen"):
        for extension in (ROOT / package).glob("*.so"):
            shutil.copy(extension, packages / package)
    return packages


def test_the_wheel_holds_all_that_is_tracked(installed: Path) -> None:
    tracked = {path for path in context() if path.startswith(("fastqps/", "loadgen/")) and "/csrc/" not in path}
    missing = {path for path in tracked if not (installed / path).is_file()}
    assert not missing, f"package-data in pyproject.toml does not name {missing}"


@in_a_container
def test_the_image_serves_however_a_model_is_named(installed: Path, tmp_path: Path) -> None:
    """To another network, without root and with nothing to write to but /data, where models stay."""
    with container.outside() as network:
        hub = network.submit(FakeHub, container.OUTSIDE).result()
        hub.repository("org/grammar", ROOT / "fastqps/data/grammar")
        for arguments, more in (
            (["org/grammar"], {"HF_ENDPOINT": hub.url}),
            (["serve", "org/grammar"], {"HF_HUB_OFFLINE": "1"}),
            (["--model", "grammar"], {}),
        ):
            with container.running(IMAGE, network, installed, tmp_path, arguments, **more) as server:
                assert network.submit(answer).result()["model"] == "grammar"
                assert f"{server.uids().real}:{server.gids().real}" == IMAGE.user
                with pytest.raises(OSError, match="Read-only"):
                    Path(f"/proc/{server.pid}/root/opt/file").write_text("")
        hub.close()


@in_a_container
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_wheel_compiles_from_what_the_build_sees(tree: Path, tmp_path: Path) -> None:
    packages = built(tree, tmp_path)
    with container.outside() as network, container.running(IMAGE, network, packages, tmp_path, ["grammar"]):
        assert network.submit(answer).result()["model"] == "grammar"


IMAGE = container.Image(
    entry=words_of("ENTRYPOINT", "cpu"),
    user=last("cpu", "USER"),
    workdir=last("cpu", "WORKDIR"),
    variables=(*(word for key, words in whole("cpu") if key == "ENV" for word in words.split()), "FASTQPS_DEVICE=null"),
)


def answer() -> dict[str, Any]:
    """A completion, once all ports can be reached."""
    for port in last("cpu", "EXPOSE").split():
        socket.create_connection((container.INSIDE, int(port)), PATIENCE_S).close()
    question = json.dumps({"prompt": "She have a apple."}).encode()
    url, headers = f"http://{container.INSIDE}:8000/v1/completions", {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, question, headers), timeout=PATIENCE_S) as found:
        return dict(json.loads(found.read()))
