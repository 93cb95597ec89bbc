"""Reports of the bench: whatever a run left, they are drawn; what they say is what the JSON says."""

from __future__ import annotations

import copy
import html.parser
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_results
import pytest
from bench_results import result_of
from matplotlib.figure import Figure

from fastqps.bench.report import page as html_page
from fastqps.bench.report import plots, points, run_facts, summary, tables, terminal, wording
from fastqps.bench.report.summary import severity
from fastqps.bench.results.point import Point

pytestmark = pytest.mark.compute


def typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a result, for its JSON."""
    return lambda found, *more: function(result_of(found), *more)


LAID_OUT: set[str] = set()


def laid_out_once(key: str, figure: Figure, whole: Callable[[str, Figure], str] = plots._image) -> str:
    """The layout takes most of a plot's time: one plot of each key is laid out, the others are drawn without it."""
    if key in LAID_OUT:
        return "data:,"
    LAID_OUT.add(key)
    return whole(key, figure)


@pytest.fixture(autouse=True)
def _lay_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "_image", laid_out_once)


page, facts_of = map(typed, (html_page.page, summary.facts_of))
labels_of, plots_of, columns_of = map(typed, (run_facts.labels_of, plots.plots_of, tables.columns_of))
write_report, print_result = map(typed, (html_page.write_report, terminal.print_result))


def one_line(result: dict[str, Any]) -> str:
    return "  ".join([result["verdict"], *facts_of(result)])


VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Document(html.parser.HTMLParser):
    """Checks that tags nest, ids are unique and references have a target; collects the rows of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.outside: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._table: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert len(found) == len(attrs), f"an attribute twice in <{tag}>"
        if tag not in VOID:
            self.open.append(tag)
        self._note(tag, found)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID, f"<{tag}/> is not closed in HTML"
        self._note(tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> does not close what is open"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self._table[-1][-1] += data

    def _note(self, tag: str, found: dict[str, str | None]) -> None:
        if name := found.get("id"):
            self.ids.append(name)
        if tag == "img":
            self.images.append(found)
        if tag == "table":
            self._table = self.tables.setdefault(str(found["id"]), [])
        if tag == "tr":
            self._table.append([])
        if tag in ("td", "th"):
            self._table[-1].append("")
        if tag == "td":
            head = self._table[0][len(self._table[-1]) - 1]
            assert found["data-head"] == head, "a phone shows cells below their own headings"
        self.outside += [
            str(found[key]) for key in ("src", "href") if not str(found.get(key) or "#").startswith(("#", "data:"))
        ]


class Pages(dict[str, str]):
    """Pages by name, drawn when they are asked for."""

    def __missing__(self, name: str) -> str:
        self[name] = page(bench_results.ALL[name]())
        return self[name]


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages()


OF_LOADS = "latency goodput stages duty-cycle timeline spectrum"
OF_ALTERNATIVES = "stages duty-cycle timeline spectrum"
PLOTS = {
    **dict.fromkeys(("rate", "breakdown", "tune"), OF_ALTERNATIVES),
    **dict.fromkeys(("sweep", "find-max", "overload"), OF_LOADS),
    "soak": "stages duty-cycle timeline processes spectrum",
    "interrupted": "",
}


@pytest.mark.parametrize("name", bench_results.ALL)
def test_a_page_is_sound_and_needs_nothing_else(name: str, pages: Pages) -> None:
    text = pages[name]
    document = Document(text)
    assert len(document.ids) == len(set(document.ids))
    assert document.outside == []
    assert not re.search(r"<script|@import|url\((?!#)", text)
    assert len(text.encode()) < 1_500_000
    assert [i for i in document.ids if i in " ".join(PLOTS.values()).split()] == PLOTS[name].split()
    for image in document.images:
        assert len(image["alt"] or "") > 20
    assert all(len(rows[0]) <= 17 for rows in document.tables.values()), "more do not fit 1,140 px"


@pytest.mark.parametrize("name", [name for name in bench_results.ALL if bench_results.ALL[name]()["points"]])
def test_figures_in_the_table_are_those_of_the_json(name: str, pages: Pages) -> None:
    result = bench_results.ALL[name]()
    head, *rows = Document(pages[name]).tables["points-table"]
    assert len(rows) == len(result["points"])
    checked = 0
    for row, point in zip(rows, result["points"], strict=True):
        shown = dict(zip(head, row, strict=True))
        for column, value in {
            "offered": point.get("offered_rate"),
            "answered OK": point.get("rate") or None,
            "goodput": point.get("goodput"),
            "p50": point.get("response_time_us", {}).get("p50"),
            "p99": point.get("response_time_us", {}).get("p99"),
            "p99.9": point.get("response_time_us", {}).get("p999"),
            "max": point.get("response_time_us", {}).get("max"),
            "duty cycle": point.get("duty_cycle"),
        }.items():
            if column not in head:
                assert all(p.get("offered_rate") is None for p in result["points"]), column
                continue
            checked += value is not None
            assert (
                (read(shown[column]) == pytest.approx(value, rel=0.006)) if value is not None else shown[column] == "–"
            )
    assert checked > 4


def read(text: str) -> float:
    """What a cell shows, as a number: per second, microseconds, or a share."""
    number, _, unit = text.replace(",", "").removesuffix("/s").partition(" ")
    return float(number) * {"": 1, "µs": 1, "ms": 1e3, "s": 1e6, "%": 0.01}[unit]


def test_names_of_points_are_no_markup(pages: Pages) -> None:
    result = bench_results.sweep()
    for point in result["points"]:
        point["name"] = "<b>$x_1$ & \x1b[31m\ud800</b>"
        point["reasons"] = ["<script>alert(1)</script>"]
    result["target"]["device"] = "</title><script>"
    text = page(result)
    Document(text)
    assert "<script" not in text and "<b>$" not in text and "\x1b" not in text


def test_a_file_holds_what_cannot_be_encoded(tmp_path: Path) -> None:
    result = bench_results.rate()
    result["notes"] = ["lone \ud800 surrogate"]
    assert write_report(result, tmp_path) == tmp_path / "report.html"


def test_labels_of_devices(pages: Pages) -> None:
    result = bench_results.rate()
    assert "Simulated device, estimated profile" in pages["rate"]
    assert "arithmetic from data sheets" in pages["rate"]
    mixed = copy.deepcopy(result)
    mixed["target"] |= {"device": "sim:h200-minilm-l6,sim:/a/own.toml"}
    mixed["target"]["profiles"].append({"name": "own", "status": "measured", "source": "by hand"})
    assert "the step times of sim:h200-minilm-l6 are an estimate" in page(mixed)
    result["target"]["profiles"][0]["status"] = "measured"
    assert [label.title for label in labels_of(result)] == ["Simulated device"]
    result["target"]["profiles"] = []
    assert [label.title for label in labels_of(result)] == ["Simulated device"]
    result["target"]["device"] = "null"
    assert [label.title for label in labels_of(result)] == ["Null device"]
    result["target"]["device"] = "cpu"
    assert labels_of(result) == []
    result["points"][0]["interrupted"] = True
    assert [label.title for label in labels_of(result)] == ["Interrupted"]


def test_doubt_is_marked(pages: Pages) -> None:
    rows = Document(pages["sweep"]).tables["points-table"]
    assert [row[1] for row in rows[-3:]] == ["VALID", "UNSTABLE", "INVALID"]
    assert "1,540/s is INVALID: generator-bound" in pages["sweep"]
    assert "NOT RUN" in pages["tune"] and "does not start" in pages["tune"]


def test_what_one_setting_tells_apart_is_called_by_it() -> None:
    result = bench_results.tune()
    result |= {"points": result["points"][:2], "best": 0}
    for n, one in enumerate(result["points"], 1):
        one["settings"] = {"dispatchers": n, "lanes": 1}
    found = result_of(result)
    assert points.name_of(found, found.points[0]) == "dispatchers 1"
    assert "Response time of dispatchers 1 by percentile" in page(result)


def test_percentiles_of_too_few_samples_are_grey() -> None:
    result, grey = bench_results.sweep(), r'<td data-head="p99" class="void" title="fewer than 10 [^"]*">–</td>'
    assert not re.search(grey, page(result))
    result["points"][0]["response_time_us"] |= {"p99": None}
    assert re.search(grey, page(result))


LIMITS, OFFERED = "p99 ≤ 50 ms, errors ≤ 0.1 %", "1,000/s of 1,000/s offered"
SENTENCES: tuple[tuple[str, dict[str, Any], str], ...] = (
    (
        "rate",
        {},
        "VALID  1,000/s of 1,000/s offered  p99 25.0 ms ≤ 50 ms  goodput 99.99 %  duty cycle 81.9 %  (n = 30,000)",
    ),
    ("rate", {"verdict": "INVALID"}, f"INVALID  the generator was the limit  {OFFERED}…"),
    ("find-max", {}, "VALID  max 1,050/s  p99 34.3 ms ≤ 50 ms  goodput 99.9 %  duty cycle 86.0 %  (n = 31,500)"),
    ("find-max", {"upper_bound": 2000.0}, "VALID  at least 1,050/s  less than 2,000/s  p99…"),
    ("find-max", {"verdict": "SLO_NOT_MET", "best": None}, f"SLO_NOT_MET  no load met {LIMITS}"),
    ("find-max", {"verdict": "INCONCLUSIVE", "best": None}, f"INCONCLUSIVE  it is not known which load meets {LIMITS}"),
    ("tune", {}, "VALID  best: dispatchers…"),
    ("tune", {"verdict": "INCONCLUSIVE"}, "INCONCLUSIVE  best so far: …"),
    ("tune", {"verdict": "INCONCLUSIVE", "best": None}, "INCONCLUSIVE  no best setting was found"),
    ("tune", {"tune": {"over_start": "+58.0 % ± 2.1"}}, "…  +58.0 % ± 2.1 over the start"),
    ("breakdown", {}, "VALID  1 in flight: 844 µs end to end  device 82.9 %, queue 3.9 %, host 6.5 %, wire 6.6 %"),
    ("overload", {}, "VALID  at 5,924/s offered goodput is 100 % of its peak 1,153/s  80.3 % refused"),
    ("interrupted", {}, "INTERRUPTED  no point was measured"),
)


@pytest.mark.parametrize(("name", "changes", "said"), SENTENCES)
def test_one_sentence(name: str, changes: dict[str, Any], said: str) -> None:
    """… stands for anything."""
    found, (begin, _, end) = one_line(bench_results.ALL[name]() | changes), said.partition("…")
    assert found.startswith(begin) and found.endswith(end) and ("…" in said or found == said)


def test_doubt_has_one_colour() -> None:
    assert severity("INCONCLUSIVE") == severity("UNSTABLE") != severity("INVALID")


@pytest.mark.parametrize("name", bench_results.ALL)
def test_terminal_is_plain_where_nobody_watches(name: str) -> None:
    stream, result = io.StringIO(), bench_results.ALL[name]()
    with terminal.RunProgress(name, stream) as progress:
        progress.expect(len(result["points"]))
        for point in result["points"]:
            progress.begin(point["name"], 2.0)
            progress.tick(1.0, "998/s  p99 4.1 ms")
            progress.end(Point(**point))
    print_result(result, stream)
    lines = stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()
    assert lines[-1] == one_line(result)
    assert len([line for line in lines if line.startswith(f"{(result['points'] or [{'name': 0}])[0]['name']}: ")]) < 2
    n = len(result["points"])
    for k, (point, line) in enumerate(zip(result["points"], lines, strict=False), 1):
        assert line.startswith(f"{k}/{n}  {point['name']}: " if n > 1 else f"{point['name']}: ")


def test_wording() -> None:
    assert [wording.time(us) for us in (0, 0.5, 812.4, 999.6, 18_312, 1_204_000)] == [
        "0 µs", "0.50 µs", "812 µs", "1.00 ms", "18.3 ms", "1.20 s",
    ]  # fmt: skip
    assert [wording.percent(s) for s in (0, 0.831, 0.99949, 0.99999, 1, 1.2)] == [
        "0 %", "83.1 %", "99.9 %", "99.99 %", "100 %", "120.0 %",
    ]  # fmt: skip
    assert [wording.rate(r) for r in (1184.4, 99.55, 0.25, None)] == ["1,184/s", "99.5/s", "0.25/s", "–"]
    assert [wording.limit(us) for us in (20_000, 1500, 250, 1_500_000)] == ["20 ms", "1.5 ms", "250 µs", "1.5 s"]


@pytest.mark.parametrize("name", ["sweep", "breakdown", "tune", "soak"])
def test_each_part_of_a_point_may_be_missing(name: str) -> None:
    """All points lack the same: what a target without an admin port, or an interrupted run, looks like."""
    result = bench_results.ALL[name]()
    server = ("duty_cycle", "idle_reasons", "devices", "dispatchers", "stages_us", "batch", "server_cpu", "saturation")
    generator = ("response_time_us", "p50_us", "p99_us", "service_time_us", "timeline", "spectrum")
    for missing in (server, generator):
        partial = json.loads(json.dumps(result)) | {"best": None}
        partial["points"] = [
            {key: value for key, value in point.items() if key not in missing} for point in partial["points"][:2]
        ]
        Document(page(partial))
        assert one_line(partial)
    nothing = {"schema_version": 1, "mode": name, "points": [{"name": point["name"]} for point in result["points"]]}
    assert plots_of(nothing) == []
    Document(page(nothing))
    assert columns_of(nothing)[0].head == "point"
