"""Fixtures of several modules: an authority of certificates, and a stub of a module's server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from certificates import Authority
from serving import Server

from fastqps.v1 import predict_pb2_grpc


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def stub(server: Server) -> Iterator[Any]:
    with grpc.insecure_channel(server.address) as channel:
        yield predict_pb2_grpc.PredictServiceStub(channel)
