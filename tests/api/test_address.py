"""Addresses of servers that the clients take, and what they say of others."""

from typing import Any

import pytest

import fastqps


@pytest.mark.parametrize("kind", [fastqps.Client, fastqps.AsyncClient])
@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:50051", "localhost:1", "models.internal:65535", "[::1]:50051", "[fe80::1%eth0]:50051", "dns:host:5",
     "dns:///host:5", "unix:/run/a.sock", "unix-abstract:fastqps-0a", "ipv4:127.0.0.1:5", "ipv6:[::1]:5", "xds:///a"],
)  # fmt: skip
def test_targets_are_taken(kind: Any, address: str) -> None:
    assert kind(address).address == address


@pytest.mark.parametrize("kind", [fastqps.Client, fastqps.AsyncClient])
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1", "has no port: HOST:PORT, such as '127.0.0.1:50051'"),
        ("localhost:", "has no port"),
        ("localhost:http", "has no port"),
        (":50051", "has no port"),
        ("", "has no port"),
        ("::1", "has no port: .* or '\\[::1\\]:50051'"),
        ("http://127.0.0.1:50051", "is a URL; give HOST:PORT: '127.0.0.1:50051'"),
        ("https://host:443/v1", "is a URL; give HOST:PORT: 'host:443'"),
        ("grpc://host:1", "is a URL; give HOST:PORT: 'host:1'"),
        ("host:1/v1", "has no port"),
        ("host:65536", "port 65536, must be 1 to 65535"),
        ("host:0", "port 0, must be 1 to 65535"),
    ],
)
def test_what_is_no_address_is_said_at_once(kind: Any, address: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^address .*{said}"):
        kind(address)
