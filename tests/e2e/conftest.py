"""Fixtures of several modules: an authority of certificates, and clients of a module's server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import grpc
import pytest
from certificates import Authority
from posting import Poster
from serving import PATIENCE_S, Server

import fastqps
from fastqps.v1 import predict_pb2_grpc


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def stub(server: Server) -> Iterator[Any]:
    with grpc.insecure_channel(server.address) as channel:
        yield predict_pb2_grpc.PredictServiceStub(channel)


@pytest.fixture
def client(server: Server) -> Iterator[fastqps.Client]:
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        yield client


@pytest.fixture
def post(server: Server) -> Iterator[Poster]:
    with closing(Poster(server)) as post:
        yield post
