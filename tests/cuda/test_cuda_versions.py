"""Which torch and triton the device cuda accepts, read from builds that are not installed here."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from paths import ROOT

from fastqps.devices.cuda_versions import TORCH_MIN, TRITON_MIN, assigned, too_old

pytestmark = pytest.mark.compute


@pytest.mark.parametrize(
    ("version", "cuda"),
    [
        (
            "from typing import Optional\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n",
            "13.0",
        ),
        ("__version__ = '2.5.1'\ncuda = '12.4'\n", "12.4"),
        ("cuda: Optional[str] = None\n", None),
        ("__version__ = '2.13.0'\n", None),
        ("cuda = ", None),
        (None, None),
    ],
)
def test_what_torch_was_built_for(tmp_path: Path, version: str | None, cuda: str | None) -> None:
    if version is not None:
        (tmp_path / "version.py").write_text(version)
    assert assigned(tmp_path / "version.py", "cuda") == cuda


OLD_TORCH = "torch {} is installed and CUDA graphs need torch 2.9 or later: pip install 'torch>=2.9'"
OLD_TRITON = "triton {} is installed and the kernels need triton 3.5 or later: pip install 'triton>=3.5'"


@pytest.mark.parametrize(
    ("torch", "triton", "message"),
    [
        ("2.8.0+cu128", "3.4.0", OLD_TORCH.format("2.8.0+cu128")),
        ("1.13.1", "3.6.0", OLD_TORCH.format("1.13.1")),
        ("2.9.0", "3.4.0", OLD_TRITON.format("3.4.0")),
        ("2.9.0", "3.5.0", ""),
        ("2.11.0+cu130", "3.6.0", ""),
        ("2.10.0a0+git1234", "3.10.0", ""),
        ("3.0.0", "4.0.0", ""),
        ("of my own", "of my own", ""),
    ],
)
def test_versions_that_are_too_old_are_named(tmp_path: Path, torch: str, triton: str, message: str) -> None:
    (tmp_path / "version.py").write_text(f"__version__ = '{torch}'\ncuda = '13.0'\n")
    (tmp_path / "__init__.py").write_text(f"__version__ = '{triton}'\n")
    assert too_old(tmp_path, tmp_path) == message


def test_packages_without_a_version_are_not_refused(tmp_path: Path) -> None:
    assert too_old(tmp_path, tmp_path) == ""


def test_what_is_installed_here_is_accepted_and_not_imported() -> None:
    code = "import sys; from fastqps.devices.cuda_choice import torch_lack as lack; print(lack()); print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lack, modules = done.stdout.splitlines()
    assert "or later" not in lack and not {"torch", "triton"} & set(modules.split())


def test_the_package_asks_for_the_same_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def oldest(name: str, requirements: list[str]) -> tuple[int, ...]:
        [found] = [match[1] for text in requirements if (match := re.match(rf"{name}>=([\d.]+)", text))]
        return tuple(map(int, found.split(".")))

    assert oldest("torch", project["dependencies"]) == TORCH_MIN
    assert oldest("triton", project["optional-dependencies"]["dev"]) >= TRITON_MIN
