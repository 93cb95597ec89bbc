"""The log of a server: one object a line, calls on request, and nothing of what clients send."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
from posting import Poster
from serving import PATIENCE_S, Server, until

from fastqps.v1.predict_pb2 import PredictRequest

TOKEN, TEXT = "k9token7k9token7", "q8text3"  # what no line may have
PREDICT = "/fastqps.v1.PredictService/Predict"
RIGHT = PredictRequest(text=TEXT, request_id=7).SerializeToString()
FIELDS = {"time", "level", "process", "message"}
CALL = {"status", "duration_ms", "model", "items", "input_tokens", "queue_ms", "device_ms"}


def bodies() -> list[Any]:
    """Right and wrong bodies for every protocol, each with the text."""
    texts: dict[str, Any] = dict.fromkeys(("inputs", "input", "prompt", "query", "text"), TEXT)
    texts |= {"texts": [TEXT], "documents": [TEXT], "model": "minilm"}
    wrong = [{name: {TEXT: [TEXT]}} for name in texts] + [{TEXT: TEXT}, [TEXT], TEXT, {"model": TEXT, "input": TEXT}]
    return [{key: texts[key]} for key in texts] + wrong + [f'{{"{TEXT}'.encode(), f"{TEXT}\xff".encode("latin-1")]


def knock(server: Server, post: Poster) -> None:
    """Goes through the routes and methods, right and wrong, with the text and with good and bad tokens."""
    good = {"authorization": f"Bearer {TOKEN}"}
    _, routes = post.send("GET", "/openapi.json", **good)
    for path in [*json.loads(routes)["paths"], f"/{TEXT}"]:
        where = re.sub(r"\{[^}]*\}", TEXT, path)
        for body in bodies():
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            post.send("POST", where, data, **good)
        post.send("GET", f"{where}?{TEXT}={TEXT}", **good)
        post.send(TEXT.upper(), where, **good)
        post.send("POST", where, b"{}", authorization=f"Bearer {TOKEN}{TEXT}")
        post.send("POST", where, b"{}", **good, fastqps_tenant=TEXT * 99, traceparent=TEXT, content_encoding=TEXT)
    secret = (("authorization", f"Bearer {TOKEN}"), ("fastqps-tenant", TEXT))
    for path in (PREDICT, f"/{TEXT}/{TEXT}"):
        for message in (RIGHT, TEXT.encode() * 9, b"\xff" + TEXT.encode()):
            for metadata in (secret, (("authorization", TOKEN + TEXT),), ()):
                with contextlib.suppress(grpc.RpcError):
                    ask(server, path, message, metadata)
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as tls:
        tls.sendall(b"\x16\x03\x01" + TEXT.encode() * 99)
        tls.recv(1)


def ask(server: Server, path: str, message: bytes, metadata: Sequence[tuple[str, str]]) -> None:
    with grpc.insecure_channel(server.address) as channel:
        channel.unary_unary(path)(message, metadata=metadata, timeout=PATIENCE_S)


def calls(server: Server) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in list(server.lines)]
    return [line for line in found if line["process"] == "access"]


def test_json_lines_have_nothing_of_a_client(serve: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    server = serve("--log-format=json", "--access-log=1", f"--auth-token-file={tmp_path / 'tokens'}")
    post = Poster(server)
    knock(server, post)
    post.close()

    def has_line() -> bool:
        ask(server, PREDICT, RIGHT, (("authorization", f"Bearer {TOKEN}"),))
        return any(line.keys() >= FIELDS | CALL for line in calls(server))

    until(has_line, "a line of an answered call")  # the first ones may find no room

    def has_refusal() -> bool:
        with contextlib.suppress(grpc.RpcError):
            ask(server, PREDICT, RIGHT, ())
        return any((line["message"], line["status"]) == ("Predict", "UNAUTHENTICATED") for line in calls(server))

    until(has_refusal, "a line of a call without a token")
    until(lambda: "a TLS client speaks" in server.log(), "a line of a front door")
    server.stop()
    lines = [json.loads(line) for line in server.lines]
    assert not [line for line in server.lines if TOKEN in line or TEXT in line]
    assert all(line.keys() >= FIELDS and re.match(r"\d{4}-\d\d-\d\dT[\d:.]{12}[+-]", line["time"]) for line in lines)
    assert {line["level"] for line in lines} <= {"info", "warning", "error"}
    assert {"supervisor", "frontdoor 0", "dispatcher 0 (null)", "access"} == {line["process"] for line in lines}
