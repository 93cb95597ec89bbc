"""What ``make setup`` and ``pip install -e`` install is typed for programs outside of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from paths import ROOT
from serving import PATIENCE_S

PROGRAM = """
from {package} import AsyncClient, Client, Prediction, PredictionError

with Client("127.0.0.1:50051", retries="often") as client:
    reveal_type(client.models()[0].task)
    reveal_type(client.predict_batch(["a"]))
    client.predict("a", tenantt="x")
"""
SAID = (
    'incompatible type "str"; expected "int"',
    'Revealed type is "str"',
    'Revealed type is "list[{package}.api.prediction.Prediction | {package}.api.prediction.PredictionError]"',
    'Unexpected keyword argument "tenantt" for "predict" of "Client"',
    "Found 2 errors",
)


@pytest.mark.parametrize(("package", "project"), [("fastqps", ROOT), ("fastqps_client", ROOT / "client")])
def test_an_editable_install_is_typed(tmp_path: Path, package: str, project: Path) -> None:
    code = f"from setuptools import build_meta; build_meta.build_editable({str(tmp_path)!r})"
    python_only = {**os.environ, "FASTQPS_PYTHON_ONLY": "1"}
    subprocess.run([sys.executable, "-c", code], cwd=project, env=python_only, check=True, stdout=subprocess.DEVNULL)
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = (tmp_path / "venv/lib").glob("*/site-packages")
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(package=package))
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MYPYPATH")}
    mypy = [sys.executable, "-m", "mypy", "--strict", f"--python-executable={tmp_path}/venv/bin/python", program]
    found = subprocess.run(
        mypy, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    ).stdout
    for said in SAID:
        assert said.format(package=package) in found, found
