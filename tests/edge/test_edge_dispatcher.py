"""The Python part of an edge's dispatcher: its loop and its look-ups, around a fake of the native one."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fastqps.dispatcher import edge, upstreams
from fastqps.dispatcher.edge import Edge, make_edge
from fastqps.dispatcher.upstreams import Lookups, Upstream, addresses_of
from fastqps.errors import ConfigError
from fastqps.models.card import ModelCard
from fastqps.process.children import EdgeSettings

pytestmark = pytest.mark.compute

CARD = ModelCard("minilm", "/m", "0123456789ab", "embed", "bert", 384, 256, 30522, "")


class Native:
    """A fake of ``fastqps._front.EdgeDispatcher`` with ``in_flight`` turns' work."""

    made: dict[str, Any]
    in_flight = 3
    ours = True

    def __init__(self, segment: object, wake_fds: object, index: int, **settings: Any) -> None:
        Native.made = {"index": index, **settings}
        self.turns = 0

    def turn(self, timeout_s: float) -> bool:
        assert timeout_s <= 0.1
        self.turns += 1
        return self.ours

    def drain(self) -> bool:
        self.in_flight -= 1
        return self.in_flight < 0

    def news(self) -> list[str]:
        return [f"turn {self.turns}"]


def settings(**more: Any) -> EdgeSettings:
    given = {
        "index": 1, "title": "", "parent_pid": 1, "parent_fd": -1, "segment_fd": -1, "wake_dispatchers": (0, 1),
        "wake_doors": (2,), "cpus": (), "epoch": 4, "route": 0, "upstreams": (("gpu", 1),),
        "credentials": ("", "", "", ""), "max_batch_items": 256, "lanes": 2,
        "on_trial": False,
    }  # fmt: skip
    return EdgeSettings(**{**given, **more})


def test_it_is_made_of_the_card_and_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastqps._front.EdgeDispatcher", Native, raising=False)
    make_edge(CARD, None, settings())  # type: ignore[arg-type]
    assert Native.made == {
        "index": 1, "epoch": 4, "route": 0, "max_items": 256, "connections": 2, "model": "minilm",
        "version": "0123456789ab", "max_input_tokens": 256, "max_output_tokens": 0, "token": "", "tls": None,
    }  # fmt: skip


def test_a_certificate_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from fastqps._front import TlsError

    def refuse(*arguments: Any, **settings: Any) -> None:
        raise TlsError("the CA: it holds no certificate")

    monkeypatch.setattr("fastqps._front.EdgeDispatcher", refuse, raising=False)
    (tmp_path / "ca.pem").write_text("")
    with pytest.raises(ConfigError, match=r"--upstream-tls-ca .*ca.pem: the CA: it holds no certificate"):
        make_edge(CARD, None, settings(credentials=(str(tmp_path / "ca.pem"), "", "", "")))  # type: ignore[arg-type]


def test_it_ends_when_nothing_is_in_flight(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(edge, "IDLE_S", 0.1)
    native = Native(None, None, 0)
    loop = Edge(native)  # type: ignore[arg-type]

    def turn(timeout_s: float) -> bool:
        loop.stopping = native.turns == 4
        return Native.turn(native, timeout_s)

    monkeypatch.setattr(native, "turn", turn)
    loop.serve()
    assert (native.turns, native.in_flight) == (5 + 3, -1)
    assert capsys.readouterr().err.splitlines()[0] == "turn 1"


def test_it_leaves_at_once_when_it_is_declared_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    native = Native(None, None, 0)
    native.ours = False
    with pytest.raises(SystemExit) as left:
        Edge(native).serve()  # type: ignore[arg-type]
    assert left.value.code == 70


class Names:
    """A fake of DNS."""

    def __init__(self) -> None:
        self.ips: dict[str, list[str]] = {}
        self.used: list[list[Upstream]] = []
        self.said: list[str] = []

    def getaddrinfo(self, host: str, port: int, **_: Any) -> Iterator[Any]:
        if not self.ips.get(host):
            raise socket.gaierror(-2, "Name or service not known")
        for ip in self.ips[host]:
            family = socket.AF_INET6 if ":" in ip else socket.AF_INET
            yield family, socket.SOCK_STREAM, 6, "", (ip, port)

    def use(self, found: Sequence[Upstream]) -> None:
        self.used.append(list(found))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: list(found.getaddrinfo(*a, **k)))
    return found


def test_addresses_behind_a_name(names: Names) -> None:
    names.ips = {"gpu": ["10.0.0.2", "fd00::1", "10.0.0.1", "10.0.0.2"], "six": ["fd00::1"]}
    assert addresses_of("gpu", 7) == [("10.0.0.1:7", "10.0.0.1", 7, "gpu"), ("10.0.0.2:7", "10.0.0.2", 7, "gpu")]
    assert addresses_of("six", 7) == [("[fd00::1]:7", "fd00::1", 7, "six")]


def test_look_ups_keep_the_last_good_answer(names: Names) -> None:
    looks = Lookups([("gpu", 7), ("more", 7)], names.use, lambda: True, names.said.append)
    looks.look()
    assert names.used == [[]] and [line.split(": ")[0] for line in names.said] == ["upstream gpu:7", "upstream more:7"]
    names.ips = {"gpu": ["10.0.0.1"], "more": ["10.0.0.1", "10.0.0.2"]}
    looks.look(), looks.look()
    assert names.used[1:] == [  # each name as soon as it is known
        [("10.0.0.1:7", "10.0.0.1", 7, "gpu")],
        [("10.0.0.1:7", "10.0.0.1", 7, "more"), ("10.0.0.2:7", "10.0.0.2", 7, "more")],
    ]
    assert names.said[2:] == [f"upstream {name}:7: it can be looked up again" for name in ("gpu", "more")]
    names.ips["more"] = []
    looks.look(), looks.look()
    assert len(names.used) == 3, "the addresses of the last answer stay"
    assert names.said[4:] == [
        "upstream more:7: it cannot be looked up: Name or service not known; its last 2 addresses stay in use"
    ]
    names.ips["more"] = ["10.0.0.3"]
    looks.look()
    assert [name for name, *_ in names.used[3]] == ["10.0.0.1:7", "10.0.0.3:7"]


@pytest.mark.parametrize(
    ("serves", "rests_s"),
    [((True,), 5.0), ((False,), 0.5), ((True, True, True, False), 0.75), ((False, True), 5.0)],
)
def test_it_looks_at_once_when_no_server_is_left(
    monkeypatch: pytest.MonkeyPatch, serves: tuple[bool, ...], rests_s: float
) -> None:
    now = 0.0
    answers = iter(serves)
    last = serves[-1]

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(upstreams.time, "sleep", sleep)
    monkeypatch.setattr(upstreams.time, "monotonic", lambda: now)
    Lookups([], lambda found: None, lambda: next(answers, last), print)._rest()
    assert now == rests_s
