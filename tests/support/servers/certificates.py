"""Certificates for tests, made by the openssl program."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
NAMES = "DNS:localhost,IP:127.0.0.1,IP:::1"


@dataclass(frozen=True)
class Pair:
    """PEM files of a certificate and its key."""

    certificate: Path
    key: Path

    @property
    def flags(self) -> tuple[str, str]:
        """Those of ``fastqps serve``."""
        return f"--tls-cert={self.certificate}", f"--tls-key={self.key}"

    def replace(self, other: Pair) -> None:
        """The other's bytes in these files, one after the other: for a moment they do not fit together."""
        self.certificate.write_bytes(other.certificate.read_bytes())
        self.key.write_bytes(other.key.read_bytes())


class Authority:
    """A certificate authority in a folder of its own. Skips the test where there is no openssl."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed: packages.apt")
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self.certificate, self._key = self.folder / "ca.pem", self.folder / "ca.key"
        _openssl("req", "-x509", *_KEY, "-keyout", self._key, "-out", self.certificate, "-subj", f"/CN={name}")

    def pair(self, name: str = "server", *, days: int = 30, names: str = NAMES) -> Pair:
        """A certificate for ``names`` that this authority has signed. ``days``: -1 for one that has expired."""
        made = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        asked = self.folder / f"{name}.csr"
        extra = ("-addext", f"subjectAltName={names}")
        _openssl("req", "-new", *_KEY, "-keyout", made.key, "-out", asked, "-subj", f"/CN={name}", *extra)
        signed = ("-CA", self.certificate, "-CAkey", self._key, "-days", str(days), "-copy_extensions", "copyall")
        _openssl("x509", "-req", "-in", asked, *signed, "-out", made.certificate)
        return made


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
