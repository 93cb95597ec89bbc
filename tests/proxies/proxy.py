"""What the real proxies have in common as programs: found or skipped, started on a free port, gone at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import pytest
from paths import ROOT
from ports import free_port
from serving import until

EXAMPLES = ROOT / "examples" / "proxies"


@dataclass(frozen=True)
class Certificates:
    """PEM files with which a proxy speaks TLS to the servers. ``certificate`` and ``key``: its own, for mTLS."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None


class Proxy:
    """A real proxy before ``backends``, configured as its file under examples/proxies says.

    ``admins``: the servers' admin addresses, for proxies that look there for readiness. ``tls``: how the servers are
    spoken to; clients always come in cleartext.
    """

    program: ClassVar[str]

    def __init__(self, backends: Sequence[str], *, admins: Sequence[str] = (), tls: Certificates | None = None) -> None:
        assert backends and (not admins or len(admins) == len(backends))
        found = installed(self.program)
        if found is None:
            pytest.skip(f"{self.program} is not installed: packages.apt, or the dev extra")
        self.backends, self.admins, self.tls = list(backends), list(admins), tls
        self._folder = tempfile.TemporaryDirectory(prefix=f"{self.program}-")
        self.folder = Path(self._folder.name)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        config = self.folder / "config"
        config.write_text(self.configuration())
        self._log = (self.folder / "log").open("w")
        self._process = subprocess.Popen(
            [found, *self.arguments(config)], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        try:
            until(self._listens, f"{self.program} listens")
            self.until_healthy(len(self.backends))
        except BaseException:
            print(self.log())
            self.stop()
            raise

    def configuration(self) -> str:
        """The example with this proxy's port and backends."""
        raise NotImplementedError

    def arguments(self, config: Path) -> list[str]:
        raise NotImplementedError

    def healthy(self) -> int:
        """How many backends it sends calls to, as far as it looks."""
        return len(self.backends)

    def until_healthy(self, count: int) -> None:
        def found() -> bool:
            try:
                return self.healthy() == count
            except OSError:  # where it says so it does not listen yet
                return False

        until(found, f"{self.program} finds {count} backends healthy")

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def stop(self) -> None:
        """Ends it; all its open connections are cut."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
        self._log.close()
        self._folder.cleanup()

    def _listens(self) -> bool:
        assert self._process.poll() is None, f"{self.program} ended with {self._process.poll()}:\n{self.log()}"
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def installed(program: str) -> str | None:
    """Its path: programs of the distribution and of the virtual environment count, whatever PATH says."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"])
    return shutil.which(program, path=path)


def replaced(text: str, old: str, new: str) -> str:
    """An example's line with another value; the example must have it exactly once."""
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the example"
    return text.replace(old, new)
