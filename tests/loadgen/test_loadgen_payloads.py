"""Messages from files and made ones, histograms, units."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.internal.encoder import _VarintBytes
from hdrh.histogram import HdrHistogram

from fastqps.v1 import predict_pb2 as pb
from loadgen import histogram, payloads, texts, units, wire
from loadgen.errors import UsageError

pytestmark = pytest.mark.compute


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16383, 16384, 2**31, 2**63, 2**64 - 1])
def test_varints_are_those_of_protobuf(value: int) -> None:
    assert wire.varint(value) == _VarintBytes(value)
    assert wire.read_varint(b"xy" + wire.varint(value) + b"z", 2) == (value, 2 + len(wire.varint(value)))


def test_files_hold_one_message_each_or_many(tmp_path: Path) -> None:
    messages = [pb.PredictRequest(text="x" * n, request_id=n).SerializeToString() for n in (1, 0, 200, 70_000)]
    paths = []
    for i, message in enumerate(messages):
        paths.append(str(tmp_path / str(i)))
        Path(paths[-1]).write_bytes(message or b"\x20\x00")
    assert payloads.from_files(paths, False) == [message or b"\x20\x00" for message in messages]
    (tmp_path / "many").write_bytes(b"".join(wire.varint(len(m)) + m for m in messages))
    assert payloads.from_files([str(tmp_path / "many")] * 2, True) == messages * 2


@pytest.mark.parametrize(
    ("data", "delimited", "message"),
    [
        (b"", False, "the payload file .* is empty"),
        (b"", True, "is empty"),
        (b"\x05abc", True, "holds no delimited messages: message 0 should have 5 bytes, but 3 are left"),
        (b"\x01a\x80", True, "message 1: a length is cut off"),
        (b"\xff" * 12, True, "message 0: a length has more than 10 bytes"),
        (None, False, "cannot read the payload .*: No such file"),
        ("a folder", False, "cannot read the payload .*: Is a directory"),
    ],
)
def test_bad_payload_files(tmp_path: Path, data: bytes | str | None, delimited: bool, message: str) -> None:
    path = tmp_path / "payload" if data != "a folder" else tmp_path
    if isinstance(data, bytes):
        path.write_bytes(data)
    with pytest.raises(UsageError, match=message):
        payloads.from_files([str(path)], delimited)


def test_made_messages_are_what_protobuf_reads() -> None:
    found = payloads.from_texts(2, texts.parse("uniform:1,40"), 500, 9)
    read = [pb.PredictRequest.FromString(message) for message in found]
    assert [pb.PredictRequest(text=r.text).SerializeToString() for r in read] == found
    assert len({r.text for r in read}) == 500  # unique, also the short ones
    words = [len(r.text.split()) for r in read]
    assert min(words) == 1 and max(words) == 40
    assert found == payloads.from_texts(2, texts.parse("uniform:1,40"), 500, 9)
    assert found != payloads.from_texts(2, texts.parse("uniform:1,40"), 500, 10)


@pytest.mark.parametrize(
    ("text", "mean", "spread"),
    [
        ("fixed:7", 7, 0),
        ("12", 12, 0),
        ("uniform:10,30", 20, 6.06),
        ("normal:50,5", 50, 5),
        ("lognormal:20,0.5", 22.66, 12.1),
    ],
)
def test_lengths_have_their_distribution(text: str, mean: float, spread: float) -> None:
    lengths, rng = texts.parse(text), random.Random(1)
    drawn = np.array([lengths.words(rng) for _ in range(100_000)])
    assert abs(drawn.mean() - mean) < 0.15 and abs(drawn.std() - spread) < 0.3 and drawn.min() >= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zipf:2", "is no distribution; there are: fixed:N"),
        ("fixed", "the length is 'fixed', which is no number"),
        ("fixed:0", "the length is 0; it must be at least 1"),
        ("fixed:1.5", "whole numbers of words"),
        ("uniform:5", "should read uniform:A,B"),
        ("uniform:9,3", "the longest is 3; it must be at least 9"),
        ("normal:5,-1", "the spread is -1"),
        ("lognormal:inf,1", "the length is inf"),
        ("lognormal:30,99", "the spread is 99; it must be at least 0 and at most 5"),
    ],
)
def test_bad_lengths(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        texts.parse(text)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("10s", 10**10), ("1.5ms", 1_500_000), ("500us", 500_000), ("0", 0), ("0s", 0), ("2m", 12 * 10**10), ("7 ns", 7)],
)
def test_durations(text: str, ns: int) -> None:
    assert units.duration_ns(text) == ns


@pytest.mark.parametrize("text", ["10", "-1s", "1 s 2", "", "s", "1e3s", "1parsec"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(UsageError, match="is no duration; write for example 10s or 500us"):
        units.duration_ns(text)
    with pytest.raises(UsageError, match="169h is too long; durations are at most 168h"):
        units.duration_ns("169h")


def test_rates() -> None:
    assert [units.rate(t) for t in ("2000", "2.5k", "1M", "0.1")] == [2000.0, 2500.0, 1e6, 0.1]
    for text in ("-5", "0", "x", "1G", "", "1e5"):
        with pytest.raises(UsageError, match="calls per second above 0"):
            units.rate(text)


# ---- histograms, against the package


@pytest.fixture(scope="module")
def pair() -> tuple[histogram.Histogram, HdrHistogram]:
    """The same 5000 values in ours and in the package's."""
    values = np.random.default_rng(1).lognormal(13, 1.5, 5000).astype(np.int64)
    theirs = HdrHistogram(1, histogram.HIGHEST_NS, 3)
    for value in values.tolist():
        theirs.record_value(value)
    counts = np.ctypeslib.as_array(theirs.counts).astype(np.uint64)
    ours = histogram.Histogram(counts, len(values), int(values.sum()), int(values.max()), int(values.min()))
    return ours, theirs


def test_the_layout_is_that_of_hdrhistogram() -> None:
    theirs = HdrHistogram(1, histogram.HIGHEST_NS, 3)
    assert theirs.counts_len == histogram.LENGTH
    assert [theirs.get_value_from_index(i) for i in range(histogram.LENGTH)] == histogram.LOWEST_NS.tolist()
    for i in range(0, histogram.LENGTH, 97):
        value = theirs.get_value_from_index(i)
        assert theirs.get_highest_equivalent_value(value) == histogram.HIGHEST_OF_NS[i]


def test_percentiles_and_moments(pair: tuple[histogram.Histogram, HdrHistogram]) -> None:
    ours, theirs = pair
    for percentile in (0.1, 10, 50, 75, 90, 99, 99.9, 99.98):
        assert ours.percentile_ns(percentile) == theirs.get_value_at_percentile(percentile)
    assert ours.percentile_ns(100) == ours.max_ns  # exact, not the edge of its place
    found = ours.summary_us()
    assert found["count"] == 5000 and found["mean"] == round(ours.sum_ns / 5e6, 3) and found["max"] == ours.max_ns / 1e3
    assert found["too_few"] == ["p999"]  # 5 samples beyond it
    spectrum = ours.spectrum_us()
    assert spectrum[0] == [0.0, ours.min_ns / 1e3] and spectrum[-1] == [100.0, ours.max_ns / 1e3]
    assert [p for p, _ in spectrum][:7] == [0, 10, 20, 30, 40, 50, 55] and len(spectrum) > 50
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(spectrum))


def test_an_empty_histogram_is_zeros() -> None:
    empty = histogram.Histogram(np.zeros(histogram.LENGTH, np.uint64), 0, 0, 0, 0)
    assert {k: v for k, v in empty.summary_us().items() if k != "too_few"} == dict.fromkeys(
        ("p50", "p75", "p90", "p95", "p99", "p999", "max", "mean", "count"), 0
    )
    assert empty.spectrum_us() == []


def test_intervals_come_in_few_places(pair: tuple[histogram.Histogram, HdrHistogram]) -> None:
    ours, _ = pair
    at = np.flatnonzero(ours.counts).astype(np.uint32)
    found = histogram.sparse(at, ours.counts[at])
    assert np.array_equal(found.counts, ours.counts) and abs(found.mean_ns / ours.mean_ns - 1) < 1e-3
    assert histogram.sparse(at[:0], ours.counts[:0]).count == 0
