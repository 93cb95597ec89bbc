"""Who may come in: clients under TLS with certificates and tokens, right, wrong and missing; files that change."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from blocking import Blocking
from certificates import Authority, Pair
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from serving import PATIENCE_S, Server, until

import fastqps
from fastqps.api import rpc
from fastqps.errors import CallError, Unauthenticated, Unavailable
from fastqps.v1 import predict_pb2 as pb

TOKEN, SECOND = "the-first-token-of-the-file", "another-token-for-someone-else"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("others"), "other")


@pytest.fixture(scope="module")
def guarded(
    module_server: Callable[..., Server], authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """With TLS, client certificates and tokens."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"# for the tests\n{TOKEN}\n\n{SECOND}\n")
    flags = (f"--tls-client-ca={authority.certificate}", f"--auth-token-file={tokens}")
    server = module_server(*authority.pair("guarded").flags, *flags)
    yield server
    assert not any(secret in server.log() for secret in (TOKEN, SECOND))


def client(
    server: Server, authority: Authority, own: Pair | None = None, token: str = "", kind: type[Any] = fastqps.Client
) -> Any:
    pair = {"tls_cert": own.certificate, "tls_key": own.key} if own else {}
    return kind(server.address, tls_ca=authority.certificate, token=token, timeout_s=PATIENCE_S, **pair)


def test_right_certificate_and_token(guarded: Server, authority: Authority) -> None:
    for token, kind in ((TOKEN, fastqps.Client), (SECOND, fastqps.Client), (TOKEN, Blocking)):
        with client(guarded, authority, authority.pair("client"), token, kind) as asked:
            assert asked.ready()
            assert asked.predict("hello").embedding is not None
            assert len(asked.embed(["a", "b"] * 300)) == 600
            assert sum(1 for _ in asked.predict_stream(["a", "b"])) == 2
            assert [model.name for model in asked.models()] == ["minilm"]


@pytest.mark.parametrize("token", ["", "not-a-token-of-the-file", TOKEN[:-1], TOKEN + "x"])
def test_wrong_and_missing_tokens(guarded: Server, authority: Authority, token: str) -> None:
    before = guarded.metrics()["fastqps_unauthenticated_total"]
    with client(guarded, authority, authority.pair("client"), token) as asked:
        for call in (lambda: asked.predict("x"), asked.models, lambda: list(asked.predict_stream(["x"]))):
            with pytest.raises(Unauthenticated, match=r"(?i)token"):
                call()
        assert asked.ready()  # health is for whoever asks
    until(lambda: guarded.metrics()["fastqps_unauthenticated_total"] == before + 3, "the counter")


def test_reflection_needs_a_token(guarded: Server, authority: Authority) -> None:
    own = authority.pair("client")
    parts = [path.read_bytes() for path in (authority.certificate, own.key, own.certificate)]
    for good in (True, False):
        tokens = grpc.access_token_call_credentials(TOKEN if good else "wrong")
        both = grpc.composite_channel_credentials(grpc.ssl_channel_credentials(*parts), tokens)
        with grpc.secure_channel(guarded.address, both) as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            if good:
                assert "fastqps.v1.PredictService" in database.get_services()
            else:
                with pytest.raises(grpc.RpcError) as refused:
                    database.get_services()
                assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_wrong_and_missing_certificates(guarded: Server, authority: Authority, other: Authority) -> None:
    for own in (None, other.pair("client"), authority.pair("expired", days=-1)):
        with client(guarded, authority, own, TOKEN) as asked, pytest.raises(Unavailable):
            asked.predict("x", timeout_s=PATIENCE_S)
    with (
        client(guarded, other, authority.pair("client"), TOKEN) as asked,
        pytest.raises(Unavailable, match=r"(?i)cert"),
    ):
        asked.predict("x", timeout_s=PATIENCE_S)


def test_a_client_without_tls(guarded: Server) -> None:
    with (
        fastqps.Client(guarded.address, timeout_s=PATIENCE_S) as asked,
        pytest.raises(Unavailable, match="perhaps it speaks TLS"),
    ):
        asked.predict("x")
    until(lambda: guarded.metrics().get("fastqps_transport_events_total{plaintext_on_tls,0}", 0) >= 1, "counted")


def test_certificates_change_under_load(authority: Authority, other: Authority, tmp_path: Path) -> None:
    """By a link, as Kubernetes does: new connections see the new one, the old ones go on, and no call fails."""
    first, second = authority.pair("first"), other.pair("second")
    for name, pair in (("1", first), ("2", second)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tls.crt").write_bytes(pair.certificate.read_bytes())
        (folder / "tls.key").write_bytes(pair.key.read_bytes())
    point(tmp_path, "2")
    server = Server(f"--tls-cert={tmp_path}/now/tls.crt", f"--tls-key={tmp_path}/now/tls.key", "--frontdoors=2")
    expiry = server.metrics()["fastqps_tls_certificate_expiry_timestamp_seconds"]
    assert 29 * 86400 < expiry - time.time() < 31 * 86400
    failed: list[CallError] = []
    calls = [0]
    stop = threading.Event()

    def load() -> None:
        with fastqps.Client(server.address, tls_ca=other.certificate) as old:
            while not stop.is_set():
                try:
                    old.embed(["a", "b"])
                except CallError as error:
                    failed.append(error)
                    return
                calls[0] += 1

    threads = [threading.Thread(target=load, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: calls[0] > 20, "load")
    for change in ("1", "2"):
        reloads = ok_reloads(server)
        point(tmp_path, change)
        until(lambda reloads=reloads: ok_reloads(server) == reloads + 1, "the change")  # type: ignore[misc]
        wanted = (other if change == "2" else authority).certificate
        # Both front doors: each connection comes to one of them.
        until(
            lambda wanted=wanted: all(trusted(server.address, wanted) for _ in range(8)),  # type: ignore[misc]
            f"certificate {change}",
        )
    after = calls[0]
    until(lambda: calls[0] > after + 20, "load goes on")
    # Files that do not fit together change nothing, and one line says so.
    (tmp_path / "2" / "tls.key").write_bytes(first.key.read_bytes())
    until(lambda: server.metrics()["fastqps_tls_reloads_total{failed}"] == 1, "the failure is counted")
    assert server.metrics()["fastqps_credentials_refused{tls}"] == 1
    assert trusted(server.address, other.certificate)
    complaints = [line for line in server.lines if "stays in use" in line]
    assert len(complaints) == 1 and "--tls-key" in complaints[0] and "not the key of the certificate" in complaints[0]
    # A front door that starts now finds the last good ones.
    door = server.child("frontdoor 0")
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed and calls[0] > 40
    door.kill()
    server.until_filled("frontdoor 0", door)
    for _ in range(8):
        assert trusted(server.address, other.certificate)
    assert ok_reloads(server) == 2
    server.stop()


def ok_reloads(server: Server) -> float:
    return server.metrics()["fastqps_tls_reloads_total{ok}"]


def point(folder: Path, to: str) -> None:
    """Changes the link ``now`` in one step."""
    link = folder / "next"
    link.symlink_to(to)
    os.replace(link, folder / "now")


def trusted(address: str, authority: Path) -> bool:
    """Whether a new connection sees a certificate of this authority."""
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(["h2"])
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as sock:
            context.wrap_socket(sock, server_hostname="localhost").close()
    except ssl.SSLCertVerificationError:
        return False
    return True


def test_tokens_change(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(TOKEN + "\n")
    server = Server(f"--auth-token-file={path}")
    with fastqps.Client(server.address, token=TOKEN) as old, fastqps.Client(server.address, token=SECOND) as new:
        old.predict("x")
        with pytest.raises(Unauthenticated):
            new.predict("x")
        path.write_text(SECOND + "\n")
        until(lambda: admitted(new), "the new token")
        assert not admitted(old)  # on the connection that it has been good on
        assert post(server, "/limits", {"lanes": 1}, SECOND)[0] == 200
    server.stop()


def admitted(asked: fastqps.Client) -> bool:
    try:
        asked.predict("x")
    except Unauthenticated:
        return False
    return True


def test_predict_on_the_command_line(guarded: Server, authority: Authority, tmp_path: Path) -> None:
    own = authority.pair("client")
    (tmp_path / "token").write_text(f"# mine\n{TOKEN}\n")
    flags = ["--tls-ca", authority.certificate, "--tls-cert", own.certificate, "--tls-key", own.key]
    command = [sys.executable, "-m", "fastqps", "predict", "--address", guarded.address, *flags]
    asked: Any = {"capture_output": True, "text": True, "check": False, "timeout": PATIENCE_S}
    done = subprocess.run([*command, "--token-file", tmp_path / "token", "hello"], **asked)
    assert done.returncode == 0 and len(json.loads(done.stdout)["embedding"]) == 384, done.stderr
    done = subprocess.run([*command, "hello"], **asked)
    assert done.returncode == 1 and "Bearer" in done.stdout + done.stderr


def test_the_bench(guarded: Server, authority: Authority, tmp_path: Path) -> None:
    """It measures a guarded server with the flags of fastqps predict, and neither shows nor keeps the token."""
    own = authority.pair("client")
    (tmp_path / "token").write_text(f"# mine\n{TOKEN}\n")
    command = [sys.executable, "-m", "fastqps", "bench", "rate", "--rate", "50", "--address", guarded.address]
    command += ["--duration", "1s", "--warmup", "0s", "--output", str(tmp_path / "out")]
    trust = ["--tls-ca", authority.certificate, "--tls-cert", own.certificate, "--tls-key", own.key]
    asked: Any = {"capture_output": True, "text": True, "check": False, "timeout": PATIENCE_S}
    done = subprocess.run([*command, *trust, "--token-file", tmp_path / "token"], **asked)
    assert done.returncode in (0, 6, 7), done.stderr
    report = (tmp_path / "out" / "report.json").read_text()
    (point,) = json.loads(report)["points"]
    assert set(point["status"]) == {"OK"} and point["status"]["OK"] > 20
    assert json.loads(report)["target"]["tls"] is True
    for shown in (report, done.stdout, done.stderr, (tmp_path / "out" / "report.html").read_text()):
        assert TOKEN not in shown
    for flags, says in (
        (trust, "Bearer"),
        (["--tls-ca", authority.certificate, "--token-file", tmp_path / "token"], "no server can be reached"),
        ([], "perhaps it speaks TLS"),
    ):
        done = subprocess.run([*command, *flags], **asked)
        assert done.returncode == 1 and says in done.stderr, done.stderr


def test_the_load_generator(guarded: Server, authority: Authority, other: Authority, tmp_path: Path) -> None:
    own = authority.pair("client")
    (tmp_path / "body").write_bytes(pb.PredictRequest(text="hello").SerializeToString())
    port = guarded.address.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "loadgen", "--target", f"localhost:{port}", "--method", rpc.PREDICT]
    command += ["--payload", str(tmp_path / "body"), "--rate", "600", "--duration", "400ms", "--warmup", "0s"]
    command += ["--connections", "4", "--connect-timeout", f"{PATIENCE_S:.0f}s", "--json", "-"]
    (tmp_path / "token").write_text(f"# mine\n{TOKEN}\n")
    tokens = (("--header", f"authorization:Bearer {TOKEN}"), ("--token-file", str(tmp_path / "token")))
    asked: Any = {"capture_output": True, "text": True, "check": False, "timeout": PATIENCE_S}
    shown = ("--tls-cert", str(own.certificate), "--tls-key", str(own.key))
    for trust, token in zip((("--tls-ca", str(authority.certificate)), ("--tls-insecure",)), tokens, strict=True):
        done = subprocess.run([*command, *trust, *shown, *token], **asked)
        found = json.loads(done.stdout)
        assert set(found["status_with_warmup"]) == {"OK"}, done.stderr
        assert found["status_with_warmup"]["OK"] > 0
    refused = subprocess.run([*command, "--tls-ca", str(other.certificate), *shown], **asked)
    assert refused.returncode == 1 and "TLS: " in refused.stderr and "certificate" in refused.stderr
    misused = subprocess.run([*command, "--tls-key", "x"], **asked)
    assert misused.returncode == 2 and "--tls-cert and --tls-key go together" in misused.stderr


def test_what_a_public_server_leaves_open_is_said() -> None:
    server = Server("--host=0.0.0.0", "--admin-host=0.0.0.0")
    said = [line for line in server.lines if "--host 0.0.0.0" in line or "--admin-host 0.0.0.0" in line]
    assert len(said) == 3
    assert "not encrypted" in said[0] and "may call" in said[1] and "may ask it" in said[2]
    server.stop()


def post(server: Server, path: str, body: Any, token: str = "") -> tuple[int, bytes, Any]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://{server.admin}{path}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers
