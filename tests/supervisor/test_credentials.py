"""Certificates and tokens as files, as what a server begins with, and as what front doors are told."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from certificates import Authority
from serving import PATIENCE_S

from fastqps.config import Config
from fastqps.errors import ConfigError
from fastqps.frontdoor.entry import Entry
from fastqps.process.credentials import Credentials, Vault, digest
from fastqps.supervisor.credentials import watch as credential_watch
from fastqps.supervisor.credentials.files import CredentialFiles, exposures, is_loopback
from fastqps.supervisor.credentials.watch import CredentialWatch
from fastqps.supervisor.log import Log
from fastqps.terminal import Level

TOKEN = "the-only-token-of-the-file"
NO_THREAD = "no thread can be started: can't start new thread"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"tls_cert": "server"}, "--tls-cert needs --tls-key too"),
        ({"tls_key": "key"}, "--tls-key needs --tls-cert too"),
        ({"tls_client_ca": "ca"}, "--tls-client-ca needs --tls-cert"),
        ({"tls_cert": "none", "tls_key": "key"}, "--tls-cert {none}: cannot be read: No such file"),
        ({"tls_cert": "folder", "tls_key": "key"}, "--tls-cert {folder}: cannot be read: it is no regular file"),
        ({"tls_cert": "ca", "tls_key": "key"}, "--tls-key {key}: it is not the key of the certificate"),
        ({"tls_cert": "expired", "tls_key": "expired_key"}, "--tls-cert {expired}: certificate 1 in it expired on 20"),
        ({"tls_cert": "tokens", "tls_key": "key"}, "--tls-cert {tokens}: it holds no certificate"),
        (
            {"tls_cert": "server", "tls_key": "key", "tls_client_ca": "server"},
            "--tls-client-ca {server}: a certificate",
        ),
        ({"auth_token_file": "key"}, "--auth-token-file {key}: line 1: a token consists of letters"),
        ({"auth_token_file": "short"}, "--auth-token-file {short}: line 2: a token of 5 characters; 16 to 4096"),
        ({"auth_token_file": "none"}, "--auth-token-file {none}: cannot be read"),
        ({"auth_token_file": "empty"}, "--auth-token-file {empty}: it holds no token"),
        ({"auth_token_file": "pipe"}, "--auth-token-file {pipe}: cannot be read: it is no regular file"),
        ({"auth_token_file": "many"}, "--auth-token-file {many}: 1025 tokens; at most 1024"),
        ({"auth_token_file": "large"}, "--auth-token-file {large}: cannot be read: it is longer than 256 KiB"),
    ],
)
def test_files_that_no_server_can_begin_with(
    authority: Authority, tmp_path: Path, flags: dict[str, str], message: str
) -> None:
    server, expired = authority.pair("begin"), authority.pair("expired", days=-1)
    names = {name: tmp_path / name for name in ("none", "folder", "tokens", "short", "empty", "pipe", "many", "large")}
    names |= {"server": server.certificate, "key": server.key, "ca": authority.certificate}
    names |= {"expired": expired.certificate, "expired_key": expired.key}
    names["folder"].mkdir()
    names["tokens"].write_text(TOKEN)
    names["short"].write_text("# one that is too short\nshort\n")
    names["empty"].write_text("# nothing\n\n")
    names["many"].write_text("".join(f"a-token-of-a-file-{i}\n" for i in range(1025)))
    names["large"].write_text("#" * (300 << 10))
    os.mkfifo(names["pipe"])
    config = dataclasses.replace(Config(), **{flag: str(names[name]) for flag, name in flags.items()})
    with pytest.raises(ConfigError) as refused:
        CredentialFiles.of(config).read()
    assert str(refused.value).startswith(message.format(**names))
    assert "\n" not in str(refused.value) and TOKEN not in str(refused.value)


def test_tokens_admit() -> None:
    found = Credentials(tokens=(digest(TOKEN.encode()), digest(b"another")))
    for good in (f"Bearer {TOKEN}", f"bearer   {TOKEN}", "BEARER another"):
        assert found.admits(good)
    for bad in ("", TOKEN, "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer \udcff"):
        assert not found.admits(bad)
    assert Credentials().admits("")
    assert TOKEN not in repr(found) and digest(TOKEN.encode()) not in repr(found)


def test_the_vault_gives_the_newest_whole_one() -> None:
    vault = Vault()
    with pytest.raises(ValueError, match="no credentials"):
        vault.read()
    for version in range(1, 5):
        vault.write(version, Credentials(key=f"key {version}" * 100, tokens=("a", "b")))
        assert vault.version() == version
        assert vault.read() == (version, Credentials(key=f"key {version}" * 100, tokens=("a", "b")))
    # A writer that has come half way: its place is not whole, the other one holds.
    os.pwrite(vault.fd, b"spoiled", 5 % 2 * (4 << 20) + 100)
    assert vault.read()[0] == 4
    os.pwrite(vault.fd, b"spoiled", 100)
    with pytest.raises(ValueError, match="no credentials"):
        vault.read()
    with pytest.raises(ValueError, match="more than"):
        vault.write(5, Credentials(certificate="x" * (5 << 20)))
    os.close(vault.fd)


class Door:
    """What it was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def set_tls(self, *pem: bytes) -> None:
        self.told.append(pem)

    def set_tokens(self, digests: list[bytes]) -> None:
        self.told.append(digests)


def test_a_door_is_told_what_changes() -> None:
    vault, door = Vault(), Door()
    token = digest(b"a")
    vault.write(1, Credentials())
    entry = Entry(door, vault)
    assert door.told == []
    vault.write(2, Credentials("certificate", "key", tokens=(token,)))
    entry.look()
    assert door.told == [(b"certificate", b"key", b""), [bytes.fromhex(token)]]
    entry.look()
    vault.write(3, Credentials("certificate", "key"))
    entry.look()
    assert door.told[2:] == [[]]
    door = Door()
    vault.write(4, Credentials("certificate", "key", tokens=(token,)))
    Entry(door, vault)  # one that starts now
    assert len(door.told) == 2
    os.close(vault.fd)


class Lines(Log):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def event(self, process: str, text: str, level: Level = Level.INFO, **fields: Any) -> None:
        self.lines.append(text)


async def test_files_that_come_one_after_the_other(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said of the moment in which they do not fit; of files that stay useless once, and again when they are
    useless in another way."""
    pair, second = authority.pair("changing"), authority.pair("second")
    certificate, key = pair.certificate, pair.key
    config = dataclasses.replace(Config(), tls_cert=str(certificate), tls_key=str(key))
    watch, log = CredentialWatch(CredentialFiles.of(config)), Lines()
    first = watch.now

    async def looked() -> dict[str, int]:
        await watch.look(log)  # type: ignore[arg-type]
        await watch.look(log)  # type: ignore[arg-type]
        return watch.reloads

    monkeypatch.setattr(credential_watch, "COMPLAIN_AFTER_S", 3600.0)
    assert await looked() == {"ok": 0, "failed": 0}
    certificate.write_bytes(second.certificate.read_bytes())
    assert await looked() == {"ok": 0, "failed": 0} and watch.now is first and not log.lines
    assert watch.refused == {"tls": False}
    key.write_bytes(second.key.read_bytes())
    assert await looked() == {"ok": 1, "failed": 0} and len(log.lines) == 1
    assert watch.now.key == second.key.read_text() and watch.vault.read() == (2, watch.now)
    monkeypatch.setattr(credential_watch, "COMPLAIN_AFTER_S", 0.0)
    key.unlink()
    assert await looked() == {"ok": 1, "failed": 1} and "No such file" in log.lines[1]
    key.write_text("rubbish")
    assert await looked() == {"ok": 1, "failed": 2} and "no private key" in log.lines[2]
    assert len(log.lines) == 3 and all(line.endswith("stays in use") for line in log.lines[1:])
    assert watch.refused == {"tls": True}
    key.write_bytes(second.key.read_bytes())
    assert await looked() == {"ok": 1, "failed": 2} and watch.vault.version() == 2  # what was in use all the time
    assert watch.refused == {"tls": False}


async def test_useless_tokens_hold_up_a_new_certificate(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files are taken over or none; which are useless is told until they are not."""
    monkeypatch.setattr(credential_watch, "COMPLAIN_AFTER_S", 0.0)
    pair, second, tokens = authority.pair("before"), authority.pair("after"), tmp_path / "tokens"
    tokens.write_text(TOKEN)
    config = dataclasses.replace(
        Config(), tls_cert=str(pair.certificate), tls_key=str(pair.key), auth_token_file=str(tokens)
    )
    watch = CredentialWatch(CredentialFiles.of(config))
    first = watch.now

    async def refused() -> dict[str, bool]:
        for _ in range(2):  # two looks have to find the same
            await watch.look(Lines())  # type: ignore[arg-type]
        return watch.refused

    tokens.write_text("short")
    pair.certificate.write_bytes(second.certificate.read_bytes())
    pair.key.write_bytes(second.key.read_bytes())
    assert await refused() == {"tls": False, "tokens": True} and watch.now is first
    assert await refused() == {"tls": False, "tokens": True}, "it stays so"
    pair.key.write_text("rubbish")
    tokens.write_text(TOKEN)
    assert await refused() == {"tls": True, "tokens": False} and watch.now is first
    pair.key.write_bytes(second.key.read_bytes())
    assert await refused() == await refused() == {"tls": False, "tokens": False}
    assert watch.now.key == second.key.read_text()


async def test_half_written_files_are_not_taken_over(authority: Authority, tmp_path: Path) -> None:
    """Half a token is a token, too, and a chain without its end is one: what two looks in a row find counts."""
    tokens, pair = tmp_path / "tokens", authority.pair("chain")
    leaf, chain = pair.certificate.read_text(), pair.certificate.read_text() + authority.certificate.read_text()
    tokens.write_text(f"{TOKEN}\n")
    files = {"auth_token_file": str(tokens), "tls_cert": str(pair.certificate), "tls_key": str(pair.key)}
    watch, log = CredentialWatch(CredentialFiles.of(dataclasses.replace(Config(), **files))), Lines()
    first = watch.now
    tokens.write_text("the-next-token-of")
    await watch.look(log)  # type: ignore[arg-type]
    tokens.write_text("the-next-token-of-the-file\n")
    pair.certificate.write_text(chain[: len(leaf)] + "\n")
    await watch.look(log)  # type: ignore[arg-type]
    pair.certificate.write_text(chain)
    await watch.look(log)  # type: ignore[arg-type]
    assert watch.now is first and watch.vault.version() == 1 and not log.lines
    await watch.look(log)  # type: ignore[arg-type]
    assert watch.now.certificate == chain and watch.now.admits("Bearer the-next-token-of-the-file")
    assert not watch.now.admits("Bearer the-next-token-of") and watch.vault.read() == (2, watch.now)
    assert len(log.lines) == 2 and watch.reloads == {"ok": 1, "failed": 0}


async def test_a_machine_without_threads_ends_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in use stays so, one line says why, and the next look that can be takes up what has changed."""
    tokens, log = tmp_path / "tokens", Lines()
    tokens.write_text(TOKEN)
    watch = CredentialWatch(CredentialFiles.of(dataclasses.replace(Config(), auth_token_file=str(tokens))))
    start = threading.Thread.start
    starts = 0

    def refuse(thread: threading.Thread) -> None:
        nonlocal starts
        starts += 1
        if starts not in allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    allowed = {3}  # the third look may see that they have changed, and not read them
    tokens.write_text(f"{TOKEN}-new")
    for _ in range(3):
        await watch.look(log)  # type: ignore[arg-type]
    assert log.lines == ["cannot look whether certificates or tokens have changed: " + NO_THREAD] and starts == 4
    assert watch.now.admits(f"Bearer {TOKEN}") and watch.refused == {"tokens": False}
    allowed.update(range(5, 9))
    for _ in range(2):
        await watch.look(log)  # type: ignore[arg-type]
    assert watch.now.admits(f"Bearer {TOKEN}-new") and len(log.lines) == 2


def test_what_is_open_is_said() -> None:
    def said(**settings: Any) -> list[str]:
        return list(exposures(dataclasses.replace(Config(), **settings)))

    assert said() == said(host="::1", admin_host="localhost") == []
    public = said(host="0.0.0.0", admin_host="::")
    assert [line.split(":")[0] for line in public] == ["--host 0.0.0.0", "--host 0.0.0.0", "--admin-host "]
    assert len(said(host="0.0.0.0", tls_cert="c")) == len(said(host="0.0.0.0", auth_token_file="t")) == 1
    assert said(host="0.0.0.0", tls_cert="c", tls_client_ca="c") == []
    assert len(said(admin_host="10.0.0.1", auth_token_file="t")) == 1
    assert is_loopback("127.9.9.9") and not is_loopback("models.internal")


class HungFiles:
    """On a file system that stops to answer behind the server's start."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.asked = self.answered = False

    def state(self) -> tuple[object, ...]:
        self.asked = not self.answers.is_set()
        self.answers.wait(PATIENCE_S)
        self.answered = self.asked
        return ()

    def read(self) -> tuple[Credentials, float]:
        return Credentials(tokens=(digest(TOKEN.encode()),)), 0.0


def test_a_file_system_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential_watch, "LOOK_S", 0.01)
    files = HungFiles()
    watch = CredentialWatch(cast(Any, files))
    files.answers.clear()

    async def run() -> None:
        looking = asyncio.create_task(watch.run(cast(Any, None)))
        while not files.asked:
            await asyncio.sleep(0.01)
        looking.cancel()

    asyncio.run(run())
    assert not files.answered  # the loop is closed, and did not wait for it
    files.answers.set()
