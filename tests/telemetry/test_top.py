"""fastqps top: the numbers, what fits into a terminal, and a real terminal across a server's restart."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import fake_source
import pytest
from fake_source import LOAD
from pages import pages
from ports import free_port
from rich.console import Console
from serving import PATIENCE_S, until

from fastqps.telemetry.live.remote import _shown
from fastqps.telemetry.live.view import View, view
from fastqps.telemetry.metrics.upstreams import COUNTERS
from fastqps.telemetry.top.cells import BUSY, IDLE, Part, count, listed, percent, single, span, stacked, uptime
from fastqps.telemetry.top.plain import lines
from fastqps.telemetry.top.screen import Screen

SECOND = 10**9


def source(n: int, dispatchers: int = 3) -> fake_source.FakeSource:
    """Two doors and some dispatchers after ``n`` rounds of the same work."""
    requests = fake_source.np.zeros((16, len(fake_source.METHODS), 17), dtype=fake_source.np.uint64)
    items = fake_source.np.zeros((16, 17), dtype=fake_source.np.uint64)
    requests[0, 0, 0], items[0, 0], items[0, 8] = 100 * n, 90 * n, 10 * n
    door = fake_source.process(
        requests=requests,
        items=items,
        request=fake_source.requests_of(fake_source.histogram(*([2_000_000] * 99 + [40_000_000]) * n)),
        rejected={**dict.fromkeys(fake_source.REJECTS, 0), "queue_full": 10 * n},
    )
    idle = dict.fromkeys(fake_source.IDLES, 0) | {"no_work": SECOND // 10 * n, "gather": SECOND // 10 * n}
    busy = fake_source.process(
        {"busy_ns": 8 * SECOND // 10 * n, "steps": 50 * n, "generated_tokens": 25 * n},
        idle_ns=idle,
        start_ns={},
        batch_items=fake_source.histogram(*[8] * n),
        batch_tokens=fake_source.histogram(*[240] * n),
        stage={stage: fake_source.histogram(*[1_000_000] * n) for stage in fake_source.STAGES},
    )
    found = fake_source.FakeSource(door, door, *[busy] * dispatchers)
    found.capacity = None
    found.segment.dispatchers = lambda: [SimpleNamespace(running=6, epoch=1)] * dispatchers
    found.segment.sizes.dispatchers = dispatchers
    found.filled = lambda: {d: d != 2 for d in range(dispatchers)}  # type: ignore[method-assign]
    found.model_of = lambda dispatcher: int(dispatcher == 2)  # type: ignore[method-assign]
    return found


def counts(*given: Any, **changes: Any) -> Any:
    """As top gets them."""
    return _shown(fake_source.counts(*given, **changes))


def page(n: int, started_s: float) -> bytes:
    return json.dumps(counts(source(n), 2.0 * n, started=started_s, at=time.time())).encode()


def example(dispatchers: int = 3, load: Any = None) -> View:
    """Two doors made two rounds each in two seconds."""
    device = [{"cpu": ns} for ns in (SECOND, 28 * SECOND // 10)]
    at = time.time()
    return view(
        counts(source(1, dispatchers), devices=device[0]),
        counts(source(3, dispatchers), 2.0, devices=device[1], load=load, at=at, started=at - 192),
    )


def edge(upstreams: int = 2) -> View:
    """The first one serves, and has answered 500 items in two seconds; the others have lost 4."""

    def states(n: int) -> list[dict[str, Any]]:
        common = {"reason": "", "in_flight": 7, "window": 96, "utilization": 0.9, "waiting": 0, "running": 0}
        none = dict.fromkeys(COUNTERS, 0)
        return [
            {
                "name": f"gpu-{i}.servers:50051",
                "state": "mismatch" if i else "serving",
                "rtt_ns": 80_000,
                "counts": none | ({"lost": 2 * n} if i else {"answered": 250 * n}),
                **common,
            }
            for i in range(upstreams)
        ]

    return view(counts(source(1), upstreams=states(1)), counts(source(3), 2.0, upstreams=states(3)))


def test_an_edge() -> None:
    first, second = edge().upstreams
    assert (first.name, first.state, first.in_flight, first.window) == ("gpu-0.servers:50051", "serving", 7, 96)
    assert (first.utilization, first.rtt, first.rates["answered"], first.rates["lost"]) == (0.9, 80, 250, 0)
    assert (second.state, second.rates["lost"]) == ("mismatch", 2)
    said = [line for line in lines(edge()) if line.startswith("upstream ")]
    assert said[0] == (
        "upstream gpu-0.servers:50051 state=serving in_flight=7 window=96 utilization=0.9 waiting=0 running=0 rtt=80 "
        "rates_sent=0 rates_answered=250 rates_refused=0 rates_lost=0 sent_bytes=0 received_bytes=0"
    )
    wide = PLAIN.sub("", rendered(edge(), 120, 40))
    assert re.search(r"gpu-0.servers:50051 +serving +250/s +7 of 96 +90 % +80.0 µs", wide), wide
    assert re.search(r"gpu-1.servers:50051 +mismatch .* lost 2/s", wide) and "device time" not in wide
    many = PLAIN.sub("", rendered(edge(30), 80, 24))
    assert re.search(r"\d+ more +0 serve", many) and many.count("\n") <= 24, many


def test_a_quiet_server_has_no_figures() -> None:
    found = view(counts(source(1)), counts(source(1), 1.0))
    assert found.codes == {} and found.latency.p99 is None and found.load is None and found.devices == {"cpu": 0}
    assert found.dispatchers[0].busy is None and found.models[0].batch_items is None
    assert "None" not in "\n".join(lines(found)) and "None" not in rendered(found, 100, 40)


def test_lines() -> None:
    found = dict(line.split(" ", 1) for line in lines(example(load=LOAD)) if line.startswith(("server", "stages")))
    assert re.search("^rate=200 .* codes_OK=180 codes_RESOURCE_EXHAUSTED=20 calls=200 ", found["server"])
    assert "refused_queue_full=20" in found["server"] and "load_saturation=0.5" in found["server"]
    assert "device_mean=1000" in found["stages"]
    assert "device cpu active=0.9" in lines(example())
    assert any(re.match("dispatcher 1 model=a device=cpu ready=1 .* busy=0.8 ", line) for line in lines(example()))


def rendered(what: View, width: int, height: int, *, live: bool = True, **console: Any) -> str:
    watch = SimpleNamespace(admin="http://127.0.0.1:9464", view=what, trouble="", age_s=0.5, restarted=False)
    file = io.StringIO()
    out = Console(width=width, height=height, file=file, force_terminal=True, **console)
    out.print(Screen(watch, 1.0, live=live))  # type: ignore[arg-type]
    return file.getvalue()


PLAIN = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("dispatchers", [1, 3, 40])
@pytest.mark.parametrize(("width", "height"), [(200, 60), (110, 40), (80, 24), (60, 20), (40, 24)])
def test_it_fits(width: int, height: int, dispatchers: int) -> None:
    text = PLAIN.sub("", rendered(example(dispatchers, LOAD), width, height))
    shown = text.rstrip("\n").splitlines()
    assert max(map(len, shown)) <= width and len(shown) <= height, text
    for wanted in ("200 items/s", "p50", "waiting", "busy"):
        assert wanted in text
    assert ("stages" in text) == (height >= 40 and dispatchers < 10)
    more = re.search(r"│ (\d+) more", text)
    rows = re.findall(r"(?m)^│   \d+ ", text)
    assert len(rows) + int(more[1] if more else 0) == dispatchers


def test_all_of_it() -> None:
    """Once, whatever the height, with the words that matter."""
    text = PLAIN.sub("", rendered(example(40, LOAD), 120, 10, live=False))
    for wanted in (
        " 39 ",
        "not ready",
        "80 %",
        "gather 10 %",
        "a  50 steps/s",
        "queue_full 20/s",
        "50 % of 200",
        "up 3m 1",
        "2 × dispatcher",  # a count, where "dispatcher 2" would be a name
    ):
        assert wanted in text, wanted


def test_colour_is_not_needed() -> None:
    for plain in ({"no_color": True}, {"color_system": None}):
        text = rendered(example(), 110, 40, **plain)
        assert not re.search(r"\x1b\[[0-9;]*3[0-7]", text)
        bar = next(line for line in text.splitlines() if line.startswith("│   1 "))
        assert "█" * 20 in bar and "ggg" in bar and "···" in bar


def test_bars() -> None:
    parts = [(BUSY, 0.5), (IDLE["gather"], 0.25), (IDLE["no_work"], 0.25)]
    assert stacked(parts, 8, colour=False).plain == "████gg··"
    assert stacked([(BUSY, 1.5)], 5, colour=False).plain == "█████"
    assert single(-1.0, 4, "red", colour=False).plain == "····"
    thirds = [(Part(str(i), "", str(i)), 1 / 3) for i in range(3)]
    for width in range(1, 50):
        assert len(stacked(thirds, width, colour=True).plain) == width


def test_words() -> None:
    spans = {
        None: "–",
        0: "0.00 µs",
        0.82: "0.82 µs",
        80.5: "80.5 µs",
        999.6: "1.00 ms",
        25e4: "250 ms",
        75e6: "75.0 s",
    }
    assert {us: span(us) for us in spans} == spans
    assert [count(v) for v in (None, 0, 0.5, 8.25, 12345.6, 100)] == ["–", "0", "0.5", "8.25", "12,346", "100"]
    assert [percent(v) for v in (None, 0, 0.004, 0.0994, 0.5, 1)] == ["–", "0 %", "0.4 %", "9.9 %", "50 %", "100 %"]
    assert [uptime(v) for v in (0, 59, 192, 18600, 190800)] == ["0s", "59s", "3m 12s", "5h 10m", "2d 5h"]
    assert listed({"OK": 0, "INTERNAL": 2.5, "NOT_FOUND": 0}, always="OK") == "OK 0/s, INTERNAL 2.5/s"


# ---- the command


class Served:
    """A metrics page that goes on from look to look, on a port that it keeps over a restart."""

    def __init__(self) -> None:
        self.port = free_port()
        self.started_s = time.time()
        self.looks = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def up(self) -> AbstractContextManager[str]:
        def answer(_: bytes) -> tuple[int, list[bytes]]:
            self.looks += 1
            self.may_answer.wait(PATIENCE_S)
            return 200, [page(self.looks, self.started_s)]

        return pages(answer, self.port)

    def command(self, *flags: str) -> list[str]:
        return [sys.executable, "-m", "fastqps", "top", "--admin", f"127.0.0.1:{self.port}", *flags]


def test_once_without_a_terminal() -> None:
    served = Served()
    with served.up():
        done = subprocess.run(
            served.command("--once", "--interval=100ms"), capture_output=True, text=True, timeout=PATIENCE_S
        )
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout.splitlines()
    assert re.match(r"\d\d:\d\d:\d\d server rate=[\d.]+ .* codes_OK=", shown[0]) and "\x1b" not in done.stdout
    assert dict.fromkeys(line.split()[1] for line in shown) == dict.fromkeys(
        ("server", "device", "model", "dispatcher", "door", "stages")
    )


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ([], 1, r"no /live/counts\.json at 127\.0\.0\.1:1: Connection refused"),
        (["--interval=0s"], 2, "--interval 0s: not between 100ms and 1h"),
        (["--interval=5"], 2, "has no unit"),
        (["--admin=nowhere"], 2, "write HOST:PORT"),
    ],
)
def test_one_line_where_it_cannot_work(flags: list[str], code: int, message: str) -> None:
    served = Served()
    served.port = 1
    done = subprocess.run(served.command(*flags), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code and done.stdout == "" and done.stderr.count("\n") == 1
    assert re.search(message, done.stderr), done.stderr


def test_lines_go_on_over_a_restart_until_ctrl_c() -> None:
    served = Served()
    with served.up():
        process = subprocess.Popen(
            served.command("--interval=100ms"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        seen: list[str] = []
        assert process.stdout
        reader = threading.Thread(target=lambda: seen.extend(process.stdout or ()))
        reader.start()
        until(lambda: any("server rate=" in line for line in seen), "a first line")
    until(lambda: any("Connection refused" in line for line in seen), "that nobody answers")
    served.started_s, served.looks, before = served.started_s + 60, 0, len(seen)
    with served.up():
        until(lambda: any("server restarted" in line for line in seen[before:]), "the restart")
        until(lambda: "server rate=" in seen[-1] or "stages" in seen[-1], "new numbers")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        reader.join(PATIENCE_S)
    assert process.stderr and process.stderr.read() == ""
    assert not any("rate=-" in line for line in seen)


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, command: list[str], rows: int, columns: int, **env: str) -> None:
        self._main, other = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            # COLUMNS and LINES, which pytest-xdist sets for its workers, would hide the terminal's own size.
            env={k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
            | {"TERM": "xterm-256color", **env},
        )  # fmt: skip
        os.close(other)
        self.text = ""
        self._seen = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._main, 65536):
                self.text += data.decode(errors="replace")

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, pattern: str) -> None:
        """Wait for ``pattern`` in what was written since the last match.

        Not since this call: what the program writes once may have been written before.
        """

        def match() -> bool:
            end = len(self.text)
            if not re.search(pattern, PLAIN.sub("", self.text[self._seen : end])):
                return False
            self._seen = end
            return True

        until(match, pattern)

    def end(self, number: signal.Signals | None = None) -> int:
        """Ctrl-C, or a signal; the exit code."""
        if number is None:
            os.write(self._main, b"\x03")
        else:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        os.close(self._main)
        return code


def test_a_terminal_across_a_restart() -> None:
    served = Served()
    with served.up():
        terminal = Terminal(served.command("--interval=100ms"), 40, 110)
        try:
            terminal.until("items/s")
            terminal.resize(20, 60)
            terminal.until(r"╭─ traffic ─{48}╮")  # 60 columns
            served.may_answer.clear()
            terminal.until("no answer for")
            served.may_answer.set()
            terminal.until("Ctrl-C ends")
        except AssertionError:
            terminal.end()
            raise
        finally:
            served.may_answer.set()
    terminal.until(r"Connection")  # at 60 columns the rest is cut
    served.started_s += 60
    with served.up():
        terminal.until("measuring|restarted|up 0s")
        terminal.until("items/s")
        assert terminal.end() == 0
    assert terminal.text.rstrip().endswith("\x1b[?25h") or "\x1b[?1049l" in terminal.text[-40:]
    assert "Traceback" not in terminal.text


def test_a_terminal_ends_by_sigterm_as_it_was() -> None:
    served = Served()
    with served.up():
        terminal = Terminal(served.command("--interval=100ms"), 24, 80)
        terminal.until("items/s")
        assert terminal.end(signal.SIGTERM) == 0
        assert "\x1b[?1049l" in terminal.text and "\x1b[?25h" in terminal.text
        dumb = Terminal(served.command("--interval=100ms", "--once"), 24, 80, TERM="dumb")
        dumb.until("server rate=")
        assert dumb.process.wait(PATIENCE_S) == 0 and "\x1b" not in dumb.text
        once = Terminal(served.command("--interval=100ms", "--once"), 24, 80, NO_COLOR="1")
        once.until("stages")
        assert once.process.wait(PATIENCE_S) == 0 and "\x1b[?1049h" not in once.text
