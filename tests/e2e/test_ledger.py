"""The ledger itself: it must find what it is there to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from echo_dispatcher import echo
from ledger import EXPIRED, Ledger

from fastqps.v1 import predict_pb2 as pb


def answer(request: pb.PredictRequest, **changes: object) -> pb.PredictResponse:
    ids = list(request.token_ids.ids)
    values = {"request_id": request.request_id, "embedding": {"values": echo(ids)}, "usage": {"input_tokens": len(ids)}}
    return pb.PredictResponse(**{**values, **changes})  # type: ignore[arg-type]


def lost(ledger: Ledger, a: pb.PredictRequest, b: pb.PredictRequest) -> None:
    ledger.answered(a.request_id, answer(a))


def twice(ledger: Ledger, a: pb.PredictRequest, b: pb.PredictRequest) -> None:
    for request in (a, b, a):
        ledger.answered(request.request_id, answer(request))


def swapped(ledger: Ledger, a: pb.PredictRequest, b: pb.PredictRequest) -> None:
    ledger.answered(a.request_id, answer(b, request_id=a.request_id))
    ledger.answered(b.request_id, answer(b))


def other_id(ledger: Ledger, a: pb.PredictRequest, b: pb.PredictRequest) -> None:
    ledger.answered(a.request_id, answer(a, request_id=b.request_id))
    ledger.answered(b.request_id, answer(b))


def other_length(ledger: Ledger, a: pb.PredictRequest, b: pb.PredictRequest) -> None:
    ledger.answered(a.request_id, answer(a, usage={"input_tokens": 99}))
    ledger.answered(b.request_id, answer(b))


def failed(ledger: Ledger, a: pb.PredictRequest, b: pb.PredictRequest) -> None:
    ledger.answered(a.request_id, answer(a, status={"code": 13}))
    ledger.answered(b.request_id, answer(b))


@pytest.mark.parametrize("fault", [lost, twice, swapped, other_id, other_length, failed])
def test_fault_is_found(fault: Callable[[Ledger, pb.PredictRequest, pb.PredictRequest], None]) -> None:
    ledger = Ledger()
    fault(ledger, ledger.ask(), ledger.ask())
    with pytest.raises(AssertionError):
        ledger.check(EXPIRED)


def test_sound_ledger() -> None:
    ledger = Ledger()
    first, second = ledger.ask(), ledger.ask(30_005)
    ledger.answered(first.request_id, answer(first))
    ledger.ended(second.request_id, EXPIRED)
    ledger.check(EXPIRED)
    assert first.token_ids != second.token_ids
