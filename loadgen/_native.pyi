"""The native half of the load generator (loadgen/csrc): the engine, and a server of known behaviour for proofs.

All times are int64 nanoseconds. Instants of one run count from its start (``Engine.start``).

**Histograms** are numpy uint64 arrays of counts in the layout of HdrHistogram from 1 ns to 1 h (what is above counts
there) with three significant digits: ``loadgen.histogram`` reads them. Sum, max and min are exact, not rounded to the
layout; all are 0 when the count is 0.

**Outcomes.** Every arrival ends in exactly one count, under one of these names:

* the 17 of gRPC (``OK`` … ``UNAUTHENTICATED``): ``grpc-status`` of trailers or of a trailers-only answer, or the
  answer's own status field (``status_field``) when the call itself was OK;
* ``BAD_STATUS`` a grpc-status that is no number of 0 to 16; ``NO_STATUS`` the answer ended without one;
* ``HTTP_<code>`` an HTTP status other than 200 without a grpc-status;
* ``BAD_ANSWER`` status OK, but the frames of the answer are broken or compressed, or a unary call got no message or
  several;
* ``NO_ANSWER`` bidi: the stream ended with OK, this request was not answered;
* ``WRONG_ID`` the answer carries another request's id (unary and server-stream with both id fields given);
* ``RST_<NAME>`` the server reset the stream, with the name of the HTTP/2 error code (``RST_REFUSED_STREAM``, …; unknown
  codes: ``RST_UNKNOWN``);
* ``GOAWAY`` the server said GOAWAY and did not process this call;
* ``PROTOCOL_ERROR`` the server's bytes are no HTTP/2; every call open on that connection ends so;
* ``CONNECTION_LOST`` the connection was closed or reset while the call was open;
* ``CONNECTION_REFUSED``, ``CONNECT_FAILED`` no connection stood, and the last attempt to make one was refused, or
  failed in another way (timeout, unreachable): like a gRPC client that does not wait for readiness, such arrivals fail
  at once;
* ``TIMEOUT`` the generator gave the call up: its deadline plus ``deadline_grace_ns`` passed without an answer;
* ``EXPIRED_UNSENT`` the deadline passed before a stream was free to send the call on;
* ``NOT_SENT`` due, but not sent when the run ended; ``UNFINISHED`` sent, and still open when the grace of the end was
  over.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

NGHTTP2: str  # its version
OUTCOMES: tuple[str, ...]
"""Every name of an outcome, without the HTTP_<code> ones; the gRPC codes first, in the order of their numbers."""

class Histogram(TypedDict):
    counts: NDArray[np.uint64]
    count: int
    sum_ns: int
    max_ns: int
    min_ns: int

class Interval(TypedDict):
    """What happened in one second of the run, over all threads. By the time of the event, warm-up included."""

    index: int
    """0, 1, …: the interval [index, index + 1) × ``interval_ns`` of the run. The last one may be shorter."""
    end_ns: int  # where the interval ended: (index + 1) × interval_ns, or the end of the run
    due: int
    """Arrivals whose intended time lies in the interval. Closed loop: calls started in it."""
    sent: int  # calls whose bytes went to the socket
    outcomes: dict[str, int]  # calls that ended, by outcome
    in_flight: int  # calls sent and not ended, at the end of the interval
    waiting: int  # arrivals due and not sent, at the end of the interval (the send queue)
    own_lateness_max_ns: int  # largest lateness of a call sent in the interval that the generator itself caused
    response_indexes: NDArray[np.uint32]
    """Response times of calls that ended OK in the interval: indexes of the full layout
    that occur …"""
    response_counts: NDArray[np.uint64]  # … and how often each does; same length

class Sample(TypedDict):
    payload: int  # index of the payload that was sent
    request_id: int  # the id written into the request, 0 without ``request_id_field``
    answer: bytes
    """The answer's message (server-stream: the messages one behind the other, each with its five bytes of gRPC
    frame)."""

class CallRecords(TypedDict):
    """Measured calls of an open loop, in the order of their ends; arrays of one length."""

    intended_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]  # the end of the answer, or the giving up
    payload: NDArray[np.uint32]
    outcome: NDArray[np.uint32]  # index in ``OUTCOMES``; from ``len(OUTCOMES)`` on: HTTP_<code>, code - 100 further on

class ConnectionResult(TypedDict):
    sent: int  # measured calls written to it
    connects: int  # connections made; 1 unless it was lost
    losses: dict[str, int]
    """Why it ended, other than by the end of the run: CONNECTION_LOST, GOAWAY, PROTOCOL_ERROR, and attempts that
    failed: CONNECTION_REFUSED, CONNECT_FAILED."""

class ThreadResult(TypedDict):
    cpu_s: float  # CPU time of the thread from start to finish
    wall_s: float
    slept_s: float
    """Time in epoll with nothing to do. cpu fraction = cpu_s / wall_s; busy fraction = 1 - slept_s / wall_s (the spin
    before a send that is near counts as busy)."""
    run_delay_s: float
    """Time in which the thread was ready to run and the kernel ran something else on its CPU (/proc schedstat; 0 if
    unknown)."""
    cpu: int  # CPU that the thread was pinned to, -1 for none

class Result(TypedDict):
    """What a run was. "Measured" arrivals are those with an intended time in [measure_from_ns, measure_until_ns);
    closed loop: calls that *ended* then. Everything else was warm-up or cool-down."""

    start_unix_ns: int  # the instant 0 of the run
    stopped: bool  # ``stop`` was called before the schedule was through
    measure_from_ns: int
    measure_until_ns: int
    """The measured window as it was: a run that was stopped early ends it at the instant of ``stop``."""
    due_all: int
    """Arrivals that became due, warm-up included. sum(outcomes_all.values()) == due_all, always."""
    outcomes_all: dict[str, int]
    due: int  # measured arrivals; sum(outcomes.values()) == due
    outcomes: dict[str, int]
    sent: int  # measured arrivals that were written to a socket, whenever that was
    sent_in_window: int  # calls written within the measured window: over its length, the achieved rate of sends
    ok_in_window: int  # calls that ended OK within the measured window: over its length, the rate of good answers
    response: Histogram
    """Measured calls that ended OK: from the intended time to the end of the answer (its trailers; bidi: its message).
    Closed loop: from the moment at which the call was made. response = lateness + service for each call."""
    service: Histogram  # the same calls from the moment at which the last byte of the request was handed to the socket
    response_failed: Histogram
    """Measured calls that did not end OK, from the intended time to the end or the giving up; not those never sent."""
    lateness: Histogram
    """Measured calls that were sent: from the intended time to the socket write, whatever the reason."""
    own_lateness: Histogram
    """The part of it that the generator itself caused: its thread woke late, or was busy. For the other part the server
    held the call up: no stream was free (``streams``, or the server's MAX_CONCURRENT_STREAMS), no window of flow
    control, a full socket, or a connection being made. That is so as long as the thread, having done all that there
    was to do, had nothing to do but wait; from then on the time is its own again."""
    first_message: Histogram
    """server-stream, measured calls that ended OK: from the intended time to the first whole message. Else empty."""
    message_gap: Histogram  # server-stream, same calls: between one message and the next
    messages: int  # messages in answers to measured calls that ended OK
    empty_answers: int  # measured calls that ended OK with a message of no bytes (or, server-stream, without a message)
    waiting_max: int  # most arrivals that were due and not sent at one time, over all threads' own maxima, added up
    in_flight_max: int  # the same for calls that were sent and not ended
    wrong_ids: int
    """bidi: answers with an id that no open request has and that none had that was given up (see late_answers)."""
    late_answers: int  # bidi: answers to requests that had been given up
    checked: int  # answers compared with ``expected`` …
    wrong: int  # … and those that differed
    samples: list[Sample]
    calls: CallRecords  # empty without ``record_calls``, and in a closed loop
    stream_outcomes: dict[str, int]
    """bidi: how the streams ended, those of the regular end (OK) included. Else empty."""
    connections: list[ConnectionResult]
    threads: list[ThreadResult]

class Engine:
    """Sends calls of one gRPC method on threads of its own. One engine is one run: connect, start, (poll …), wait,
    result.

    Python's lock is released in every call that can take time; the threads never take it.
    """

    def __init__(
        self,
        host: str,
        port: int,
        path: str,
        headers: Sequence[tuple[str, str]],
        payloads: Sequence[bytes],
        *,
        connections: int = 1,
        streams: int = 100,
        threads: int = 1,
        cpus: Sequence[int] | None = None,
        call: Literal["unary", "server-stream", "bidi"] = "unary",
        stream_in_flight: int = 256,
        request_id_field: int = 0,
        response_id_field: int = 0,
        timeout_field: int = 0,
        status_field: Sequence[int] = (),
        grace_ns: int = 5_000_000_000,
        expected: Sequence[bytes] | None = None,
        samples_max: int = 0,
        sample_every: int = 97,
        record_calls: bool = False,
        interval_ns: int = 1_000_000_000,
        tls: bool = False,
        tls_ca: bytes = b"",
        tls_cert: bytes = b"",
        tls_key: bytes = b"",
    ) -> None:
        """
        host: name or address (IPv4, IPv6); plain TCP, HTTP/2 with prior knowledge.
        path: ``/package.Service/Method``.
        headers: further request headers, after the usual ones of gRPC; names in lower case.
        payloads: serialized messages without frames; at least one. Empty bytes are a valid message.
        connections: in all; at least ``threads``. Thread t has those with index % threads == t.
        streams: most calls open at a time per connection (open loop); bidi: long-lived streams per connection.
        threads: arrivals are dealt to them in turn, arrival i to thread i % threads.
        cpus: one CPU per thread, or None: not pinned.
        stream_in_flight: bidi: most unanswered requests per stream.
        request_id_field: number of a varint field (1 to 2**29 - 1) of the request; each request gets an id of its own
            there, appended to the payload (the last value of a field holds). 0: none. bidi: needed, and
            response_id_field too.
        response_id_field: number of the varint field of the answer that repeats the id.
        timeout_field: number of a varint field of the request that gets the time left until the deadline, in µs.
        status_field: path of field numbers to a varint in the answer that holds a gRPC code, (6, 1) for 6.1; absent: 0.
        grace_ns: how long calls that are open may take after the last arrival, or after ``stop``.
        expected: for each payload the bytes of its right answer. (Not with ids, which change the answer.)
        samples_max, sample_every: keep about one in ``sample_every`` OK answers, at most ``samples_max`` of them, over
            all threads; at most 64 MiB in all.
        record_calls: keep the times of each measured call of an open loop: 24 bytes a call.

        Raises ValueError for what would break it: the command line checks the rest.
        """

    def connect(self, timeout_s: float) -> None:
        """Makes all connections, and waits for the server's HTTP/2 SETTINGS on each, so that nothing is measured of it.

        Raises OSError when a CPU of ``cpus`` cannot be had, else ConnectionError with the reason (name not found,
        refused, timed out, "answers HTTP/1.1, not HTTP/2", …); then it may be tried again.
        """

    def start(
        self,
        times_ns: NDArray[np.int64],
        payload_index: NDArray[np.uint32],
        deadline_ns: NDArray[np.int64] | int = 0,
        *,
        measure_from_ns: int = 0,
        measure_until_ns: int = 2**62,
    ) -> None:
        """Open loop: call i is due at ``times_ns[i]``, carries ``payloads[payload_index[i]]`` and has
        ``deadline_ns[i]`` from its intended time (0: none). Arrays are not copied when contiguous: leave them alone
        until the run has ended.

        times_ns: int64[n], sorted, ≥ 0; payload_index: uint32[n] < len(payloads); deadline_ns: int64[n] ≥ 0 or one for
            all.
        Raises ValueError for arrays that do not fit together, RuntimeError if not connected or started before.
        """

    def start_closed(
        self,
        in_flight: int,
        duration_ns: int,
        payload_index: NDArray[np.uint32],
        deadline_ns: int = 0,
        *,
        measure_from_ns: int = 0,
    ) -> None:
        """Closed loop: ``in_flight`` calls are always open, spread evenly over all connections, for ``duration_ns``.
        Measured: what ends in [measure_from_ns, duration_ns).

        payload_index: order in which payloads are sent, again and again. ``streams`` does not count here
        (unary, server-stream); bidi: in_flight ≤ connections × streams × stream_in_flight. Raises like ``start``.
        """

    def poll(self) -> list[Interval]:
        """Intervals finished since the last call, in order; the last, partial one appears when the run has ended."""

    def wait(self, timeout_s: float) -> bool:
        """Waits until the run has ended, at most so long. True: it has."""

    def stop(self, grace_s: float | None = None) -> None:
        """No more sends; open calls get ``grace_s`` (None: grace_ns of the constructor) to end. Returns at once: then
        ``wait``. A second call with a shorter grace shortens it. Does nothing before ``start`` or after the end."""

    def result(self) -> Result:
        """Everything of the run. Raises RuntimeError until it has ended (``wait`` returned True)."""

class Server:
    """A gRPC server whose behaviour is known, on one thread of its own. It takes any method of any service.

    Each request message is one job. Jobs go through one queue and one server, first come first served, in virtual time:
    a job that arrives at t ends at max(t, end of the job before) + ``service_ns``, and is answered then; waiting costs
    no CPU. Unary, server-stream and bidi calls all work: a message is answered by ``messages`` messages, and the
    trailers follow when the client has closed its side and all jobs of the call are answered.
    """

    port: Final[int]
    """The port it listens on."""

    def __init__(
        self,
        *,
        port: int = 0,
        service_ns: int = 0,
        answer_bytes: int = -1,
        messages: int = 1,
        message_gap_ns: int = 0,
        stall_at_ns: int = 0,
        stall_for_ns: int = 0,
        path: str = "",
        fail_every: int = 0,
        fail_status: int = 14,
        streams_max: int = 0,
    ) -> None:
        """
        answer_bytes: length of answers (zeros); -1: the request's own bytes (echo).
        messages, message_gap_ns: answers per request message, and the time from one to the next (the service time leads
            to the first).
        stall_at_ns, stall_for_ns: once, so long after the first request, the server does nothing for so long: it
            neither reads nor answers.
        path: if given, the only method there is; others are answered UNIMPLEMENTED (trailers only).
        fail_every, fail_status: every so many-th call is answered with this status alone (trailers only). 0: none.
        streams_max: its SETTINGS_MAX_CONCURRENT_STREAMS; 0: no limit.
        Raises OSError when it cannot listen, ValueError for what contradicts these lines.
        """

    def stop(self) -> None:
        """Ends it: connections are closed, the thread is joined. Again: nothing."""

def record(values_ns: NDArray[np.int64] | Sequence[int]) -> Histogram:
    """A histogram of these values, recorded as the engine does it: for tests."""
