"""An edge follows the files of its token and certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastqps._front import TlsError, probe
from fastqps.dispatcher.upstreams import UpstreamCredentials
from fastqps.errors import ConfigError
from fastqps.process.credentials import UpstreamFiles

pytestmark = pytest.mark.compute

OLD, NEW = "old-token-of-an-edge", "new-token-of-an-edge"


def test_a_new_token_is_used(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(OLD)
    used: list[tuple[str, object]] = []
    said: list[str] = []
    watch = UpstreamCredentials(UpstreamFiles("", "", "", str(path)), lambda *found: used.append(found), said.append)
    watch.look()
    assert not used and not said
    path.write_text(NEW)
    watch.look(), watch.look()
    assert used == [(NEW, None)] and len(said) == 1
    path.write_text("short")
    watch.look()
    assert len(said) == 1, "it may be half written"
    watch.look(), watch.look()
    assert len(said) == 2 and "stay in use" in said[1] and str(path) in said[1]
    path.write_text(OLD)
    watch.look()
    assert used[1:] == [(OLD, None)]


def test_certificates_that_are_no_use_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("first")

    def use(token: str, pem: object) -> None:
        raise ValueError("the CA: it holds no certificate")

    said: list[str] = []
    watch = UpstreamCredentials(UpstreamFiles(str(path), "", "", ""), use, said.append)
    path.write_text("second")
    watch.look(), watch.look(), watch.look()
    assert said == ["upstreams: the old token and certificates stay in use: the CA: it holds no certificate"]


def test_a_bundle_of_authorities(tmp_path: Path) -> None:
    """A system's bundle is taken; what no bundle is like is refused in one line."""
    bundle = Path(pytest.importorskip("certifi").where())

    def ask(ca: Path) -> str:
        """Of a port that is closed."""
        answer = probe(
            ("closed", "127.0.0.1", 1, "closed"), model="m", version="0" * 12, max_input_tokens=1, max_output_tokens=0,
            token="", tls=UpstreamFiles(str(ca), "", "", "").pem(), timeout_s=5.0,
        )  # fmt: skip
        return answer.state

    assert bundle.read_text().count("BEGIN CERTIFICATE") > 100
    assert ask(bundle) == "connecting"
    one = tmp_path / "one.pem"
    end = "-----END CERTIFICATE-----\n"
    one.write_text((bundle.read_text().partition(end)[0] + end) * 1025)
    with pytest.raises(TlsError, match="it holds more than 1024 certificates"):
        ask(one)
    one.write_bytes(b"x" * ((2 << 20) + 1))
    with pytest.raises(ConfigError, match=r"one.pem: cannot be read: it is longer than 2 MiB"):
        ask(one)
