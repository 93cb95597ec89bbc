"""The address of a server, as callers give it."""

import re

_SCHEMES = ("dns", "unix", "unix-abstract", "ipv4", "ipv6", "vsock", "xds", "google-c2p")  # gRPC's own
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+[^]]*\]|[^:/\[\]\s]+):([0-9]{1,5})")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]+)")


def check_address(address: str) -> None:
    """Raises ValueError for what is neither HOST:PORT nor another gRPC target: gRPC would take any text for the name of
    a host, and port 443 where there is none."""
    if address.partition(":")[0] in _SCHEMES:
        return
    if url := _URL.match(address):
        raise ValueError(f"address {address!r} is a URL; give HOST:PORT: {url[1]!r}")
    match = _HOST_PORT.fullmatch(address)
    if not match:
        raise ValueError(f"address {address!r} has no port: HOST:PORT, such as '127.0.0.1:50051' or '[::1]:50051'")
    if not 0 < int(match[2]) < 1 << 16:
        raise ValueError(f"address {address!r}: port {match[2]}, must be 1 to 65535")
