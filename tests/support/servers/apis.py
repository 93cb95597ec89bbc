"""One server, as each protocol reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
from posting import Poster
from reflected import call
from serving import Server

import fastqps


class Api:
    """``client``: its own API, by which the answers of all others are checked."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = fastqps.Client(server.address)
        self.post = Poster(server)
        self.channel = grpc.insecure_channel(server.address)

    def call(self, path: str, *messages: dict[str, Any], **fields: Any) -> Any:
        """The answer of a method of the other protocols over gRPC, as ``reflected.call`` gives it."""
        return call(self.channel, path, *messages, **fields)

    def refusal(self, path: str, *messages: dict[str, Any], **fields: Any) -> tuple[str, str]:
        """Code and message of such a call that fails."""
        try:
            found = self.call(path, *messages, **fields)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"{path} answered: {found}")

    def close(self) -> None:
        for part in (self.client, self.post, self.channel):
            part.close()


def reaching(server: Server) -> Iterator[Api]:
    """For a fixture. After its tests nothing may be left in the server."""
    api = Api(server)
    yield api
    api.close()
    server.until_idle()
