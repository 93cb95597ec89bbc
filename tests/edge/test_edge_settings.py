"""The settings of an edge: which go together, what follows from them, and what its dispatchers are started with."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fastqps._core import CALLER_BYTES, Segment, create_segment
from fastqps.config import Config, decide, load
from fastqps.config.edge import parse_upstream, upstreams
from fastqps.devices import DeviceError, list_devices, make_runner
from fastqps.errors import ConfigError
from fastqps.host import machine
from fastqps.models.card import ModelCard
from fastqps.process.children import EdgeSettings, read_settings, write_settings
from fastqps.process.credentials import UpstreamFiles
from fastqps.supervisor.plan import make_plan

pytestmark = pytest.mark.compute

TOKEN = "a-token-for-the-servers"


def edge(**settings: Any) -> Config:
    given = {"model": ("minilm",), "device": "remote", "upstream": ("gpu:50051",), **settings}
    return decide(dataclasses.replace(Config(), **given))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:50051", ("gpu", 50051)),
        ("dns:///gpu.models.svc.cluster.local.:1", ("gpu.models.svc.cluster.local.", 1)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
        ("[::1]:80", ("::1", 80)),
        ("gpu", None), ("gpu:", None), (":1", None), ("gpu:0", None), ("gpu:65536", None), ("::1:80", None),
        ("http://gpu:1", None), ("dns://8.8.8.8/gpu:1", None), ("gpu:1/x", None), ("g pu:1", None), ("[gpu]:1", None),
    ],
)  # fmt: skip
def test_addresses(text: str, found: tuple[str, int] | None) -> None:
    if found:
        assert parse_upstream(text) == found
    else:
        with pytest.raises(ConfigError, match="write HOST:PORT"):
            parse_upstream(text)


def test_sources_of_upstreams() -> None:
    environment = {"FASTQPS_DEVICE": "remote", "FASTQPS_UPSTREAM": "a:1,dns:///b:2"}
    assert upstreams(load({}, environment).config) == (("a", 1), ("b", 2))
    assert upstreams(load({"upstream": ["c:3", "d:4"]}, environment).config) == (("c", 3), ("d", 4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"upstream": ()}, "--device remote needs --upstream HOST:PORT"),
        ({"upstream": ("a:1", "dns:///a:1")}, "--upstream: a is given twice"),
        ({"upstream": tuple(f"a:{i + 1}" for i in range(65))}, "--upstream: 65 names; at most 64"),
        ({"device": "null"}, "--upstream: only --device remote sends to upstreams, and the device is null"),
        (
            {"device": "null", "upstream": (), "upstream_token_file": "x"},
            "--upstream-token-file: only --device remote",
        ),
        ({"upstream_tls_cert": "x"}, "--upstream-tls-cert needs --upstream-tls-key too"),
        ({"upstream_tls_key": "x"}, "--upstream-tls-key needs --upstream-tls-cert too"),
        ({"upstream_tls_cert": "x", "upstream_tls_key": "x"}, "--upstream-tls-cert needs --upstream-tls-ca"),
        ({"device": "remote,null"}, "can be served side by side"),
        ({"max_batch_items": 1025}, "--max-batch-items 1025: a message of an edge holds at most 1024 requests"),
        *(
            ({field: value}, f"--{field.removesuffix('_ns').replace('_', '-')}: an edge computes no steps")
            for field, value in {
                "dtype": "float32", "quantization": "int8", "kernels": "own", "share_weights": True, "mps": "off",
                "async_steps": False, "max_running": 4, "max_batch_tokens": 1024, "max_batch_delay_ns": 1,
                "max_step_time_ns": 10**6,
            }.items()
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        edge(**settings)
    assert message in str(refused.value)


def test_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, doors, dispatchers in ((1, 1, 1), (2, 1, 1), (3, 2, 1), (4, 2, 2), (16, 14, 2), (64, 32, 2)):
        monkeypatch.setattr(machine, "usable_cores", lambda cpus=None, cores=cores: cores)
        found = edge()
        assert (found.frontdoors, found.dispatchers, found.lanes) == (doors, dispatchers, 2)
        assert found.max_batch_items == 256
    assert edge(frontdoors=3, dispatchers=5, lanes=8, max_batch_items=7) == dataclasses.replace(
        edge(), frontdoors=3, dispatchers=5, lanes=8, max_batch_items=7
    )


def test_the_plan_has_room_for_callers_and_upstreams() -> None:
    plan = make_plan(edge(slots=16))
    sizes = plan.sizes()
    assert (sizes.caller_bytes, sizes.upstreams) == (CALLER_BYTES, 1)
    assert [device.description for device in plan.devices] == ["remote"]
    room = plan.rooms[0]
    assert (room.items, room.running, room.kv_bytes, room.choose) == (256, 0, 0, False)
    segment = Segment(create_segment(sizes))
    assert segment.upstreams(0) == [] and segment.upstream_totals(0).wire.count == 0
    with pytest.raises(IndexError):
        segment.upstreams(sizes.dispatchers)
    other = make_plan(decide(Config(model=("minilm",), device="null", slots=16))).sizes()
    assert (other.caller_bytes, other.upstreams) == (0, 0)
    with pytest.raises(IndexError):
        Segment(create_segment(other)).upstreams(0)


def test_only_a_server_has_the_device() -> None:
    assert list_devices("remote")[0].spec == "remote"
    with pytest.raises(DeviceError, match="only a server sends to others"):
        make_runner("remote", ModelCard("m", "/m", "0" * 12, "embed", "bert", 1, 1, 1, ""), 1, 1)
    with pytest.raises(ConfigError, match="unknown"):
        list_devices("remote:1")


def test_credentials(tmp_path: Path) -> None:
    ca, cert, key, tokens = (tmp_path / name for name in ("ca", "cert", "key", "tokens"))
    for path in (ca, cert, key):
        path.write_text(path.name)
    tokens.write_text(f"# the newest first\n{TOKEN}\n{TOKEN}-of-yesterday\n")
    assert UpstreamFiles("", "", "", "").pem() is None and UpstreamFiles("", "", "", "").token() == ""
    assert UpstreamFiles(str(ca), "", "", "").pem() == (b"ca", b"", b"")
    files = UpstreamFiles(str(ca), str(cert), str(key), str(tokens))
    assert files.pem() == (b"ca", b"cert", b"key") and files.token() == TOKEN
    assert files.tls_flags == f"--upstream-tls-ca {ca}, --upstream-tls-cert {cert}, --upstream-tls-key {key}"
    with pytest.raises(ConfigError, match=r"--upstream-tls-ca .*none: cannot be read: No such file"):
        UpstreamFiles(str(tmp_path / "none"), "", "", "").pem()
    with pytest.raises(ConfigError, match=r"--upstream-token-file .*: line 1: a token of 2 characters"):
        UpstreamFiles("", "", "", str(ca)).token()


def test_the_command_line_of_a_dispatcher_has_no_secrets() -> None:
    common = {"index": 0, "title": "dispatcher 0 (remote)", "parent_pid": 1, "parent_fd": 3, "segment_fd": 4}
    settings = EdgeSettings(
        **common, wake_dispatchers=(5,), wake_doors=(6,), cpus=(), epoch=1, route=0, max_batch_items=256, lanes=2,
        on_trial=True,
        upstreams=(("gpu", 1), ("::1", 2)), credentials=("ca.pem", "", "", "tokens"),
    )  # fmt: skip
    assert read_settings(write_settings(settings)) == settings
