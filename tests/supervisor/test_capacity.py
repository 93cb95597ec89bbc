"""--capacity: what is no capacity file is refused in one line, and a measured one gives saturation its measure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import Server

from fastqps.cli import main
from fastqps.config import Config
from fastqps.errors import ConfigError
from fastqps.models import load_card
from fastqps.models.names import resolve
from fastqps.supervisor.plan import doubts
from fastqps.telemetry.capacity import read_capacity

FILE: dict[str, Any] = {
    "schema_version": 1,
    "model": "minilm",
    "version": "0123456789ab",
    "device": "cpu",
    "settings": {"dispatchers": 2, "max-batch-delay": "100us"},
    "slo": {"p99_us": 20000.0, "error_ratio": 0.001},
    "rate": 400.0,
    "in_flight": 8,
    "p99_us": 19000.0,
    "measured": "2026-01-01T00:00:00Z",
    "commit": "abc",
    "command": "fastqps bench find-max",
}


def write(path: Path, **changes: Any) -> str:
    """A capacity file; a value of None takes the key out."""
    path.write_text(json.dumps({key: value for key, value in {**FILE, **changes}.items() if value is not None}))
    return str(path)


def test_a_file_as_the_bench_writes_it(tmp_path: Path) -> None:
    found = read_capacity(write(tmp_path / "c.json"))
    assert (found.model, found.version, found.device) == ("minilm", "0123456789ab", "cpu")
    assert (found.rate, found.in_flight, found.settings["dispatchers"]) == (400, 8, 2)
    found.check("minilm", "cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": None}, "is no capacity file; fastqps bench find-max writes one"),
        ({"schema_version": 2}, "has schema version 2, this version reads 1"),
        ({"schema_version": None}, "has schema version None"),
        ({"model": None}, "model is missing, not text"),
        ({"version": 5}, "version is 5, not text"),
        ({"rate": 0}, "rate is 0, not a number within 1e-12 to 1e.15"),
        ({"rate": True}, "rate is true"),
        ({"rate": float("nan")}, "the value.'rate'. is no number"),
        ({"rate": float("inf")}, "the value.'rate'. is no number"),
        ({"rate": 10**400}, "the value.'rate'. is no number"),
        ({"slo": {"p99_us": 10**400}}, "the value.'slo'..'p99_us'. is no number"),
        ({"in_flight": 5e-324}, "in_flight is 5e-324, not a number within"),
        ({"in_flight": "8"}, 'in_flight is "8"'),
        ({"in_flight": None}, "in_flight is missing"),
        ({"settings": []}, r"settings is \[\], not an object"),
        ({"slo": [1]}, r"slo is \[1\], not an object"),
        ({"slo": {"p99_us": -1}}, "slo.p99_us is -1, not a number within"),
        ({"at_knee": {"device": "much"}}, 'at_knee.device is "much", not a number'),
        ({"below_knee": {}}, r"below_knee is {}, not a list of at most 8"),
        ({"below_knee": [{}] * 9}, r"below_knee is \[.*, not a list of at most 8"),
        ({"below_knee": [5]}, r"below_knee\[0\] is 5, not an object"),
        ({"below_knee": [{}]}, r"below_knee\[0\].share is 0, not above 0 and below 1"),
        ({"below_knee": [{"share": 0.5}, {"share": 0.5}]}, r"below_knee\[1\].share is 0.5, not above 0.5 and below 1"),
        ({"below_knee": [{"share": 1}]}, r"below_knee\[0\].share is 1, not above 0 and below 1"),
        ({"below_knee": [{"share": 0.5, "device": -1}]}, r"below_knee\[0\].device is -1, not a number"),
    ],
)
def test_what_is_no_capacity_file(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_capacity(write(tmp_path / "c.json", **changes))


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000, b"rate = 1"])
def test_what_is_not_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(ConfigError, match="is not JSON"):
        read_capacity(str(tmp_path / "c.json"))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "it is no regular file")):
        with pytest.raises(ConfigError, match=f"--capacity: cannot read .*: {reason}"):
            read_capacity(str(path))


def test_a_capacity_of_something_else(tmp_path: Path) -> None:
    found = read_capacity(write(tmp_path / "c.json"))
    for served in (("other", "cpu"), ("minilm", "null")):
        with pytest.raises(ConfigError, match="measure again"):
            found.check(*served)
    assert found.doubt("0123456789ab") == ""
    assert found.doubt("ba9876543210") == (
        "--capacity was measured with version 0123456789ab, not ba9876543210: measure again"
    )


def test_what_a_file_says_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    found = read_capacity(write(tmp_path / "c.json", model="\x1b[2J\x7f\n" + "9" * 10_000, version="\x1b[2J" * 9999))
    with pytest.raises(ConfigError) as caught:
        found.check("minilm", "cpu")
    for text in (str(caught.value), found.doubt("0123456789ab")):
        assert text.isprintable() and len(text) < 300
    with pytest.raises(ConfigError) as caught:
        read_capacity(write(tmp_path / "c.json", schema_version="\x1b[2J"))
    assert str(caught.value).isprintable()


def test_what_makes_a_capacity_doubtful_is_said(tmp_path: Path) -> None:
    found = read_capacity(write(tmp_path / "c.json", settings={**FILE["settings"], "device": "x", "lanes": "many"}))
    now = Config(dispatchers=1, lanes=1, max_batch_delay_ns=100_000)
    assert doubts(found, now, found.version) == [
        "--capacity was measured with other settings: dispatchers 2, now 1; lanes many, now 1"
    ]
    same = Config(dispatchers=2, max_batch_delay_ns=100_000)
    assert doubts(read_capacity(write(tmp_path / "c.json")), same, FILE["version"]) == []
    [older] = doubts(read_capacity(write(tmp_path / "c.json", at_knee={"device": 0.5})), same, FILE["version"])
    assert "an older version" in older and "measure again" in older
    newer = read_capacity(write(tmp_path / "c.json", at_knee={"device": 0.5, "device_load": 0.4}))
    assert doubts(newer, same, newer.version) == []


def test_the_slo_and_what_was_seen_at_the_knee_are_optional(tmp_path: Path) -> None:
    found = read_capacity(write(tmp_path / "c.json", slo=None))
    assert (found.slo_p99_s, found.at_knee) == (None, {})
    found = read_capacity(write(tmp_path / "c.json", at_knee={"queue_wait_p95_s": 0.004, "device": 0}))
    assert found.below_knee == ()
    assert found.slo_p99_s == pytest.approx(0.02) and found.at_knee == {"queue_wait_p95_s": 0.004, "device": 0}


def test_a_server_with_its_capacity(
    serve: Callable[..., Server], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = load_card(str(resolve("minilm")[1]), 512, "minilm")
    right = {"version": card.version, "device": "null", "settings": {"dispatchers": 3}}
    server = serve("--dispatchers=1", f"--capacity={write(tmp_path / 'c.json', **right)}")
    assert "--capacity was measured with other settings: dispatchers 3, now 1" in server.log()
    assert server.metrics()["fastqps_capacity_requests_per_second"] == 400
    for changes, message in (({"model": "other"}, "measured with the model other,"), ({"device": "cpu"}, "device cpu")):
        path = write(tmp_path / "wrong.json", **{**right, **changes})
        flags = ["--model=minilm", "--device=null", "--port=0", "--admin-port=0", "--http-port=off", "--capacity", path]
        assert main(["serve", *flags]) == 2
        said = capsys.readouterr().err
        assert message in said and said.count("\n") == 1
