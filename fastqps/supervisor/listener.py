"""Sockets that are bound at start and listened on when the server is ready."""

from __future__ import annotations

import errno
import socket
import time

from fastqps.errors import ConfigError

BACKLOG = 4096
# After a SIGKILL the kernel takes a moment to end the old server's processes, which hold the port.
RETRY_S = 1.0


def bind(host: str, port: int, setting: str) -> socket.socket:
    """A bound TCP socket that does not listen yet. ``ConfigError`` names ``setting`` where that is not possible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {host!r}: {error}") from None
    give_up = time.monotonic() + RETRY_S
    while True:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        # For addresses that old connections linger on. It also lets two servers bind, and the second fails to listen.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            sock.bind(address)
            return sock
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE or port == 0 or time.monotonic() > give_up:
                raise _refused(host, port, setting, error) from None
        time.sleep(0.05)


def listen(sock: socket.socket, setting: str) -> None:
    """From now on clients can connect; the front doors accept them."""
    try:
        sock.listen(BACKLOG)
    except OSError as error:
        host, port = sock.getsockname()[:2]
        raise _refused(host, port, setting, error) from None


def address(sock: socket.socket) -> str:
    """``host:port`` as clients write it."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable(sock: socket.socket) -> str:
    """``host:port`` where this machine itself reaches the socket: loopback for one bound to all interfaces."""
    host, port = sock.getsockname()[:2]
    return f"{ {'0.0.0.0': '127.0.0.1', '::': '[::1]'}.get(host) or (f'[{host}]' if ':' in host else host) }:{port}"


def _refused(host: str, port: int, setting: str, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(f"port {port} on {host} is in use; choose another with {setting} (0: any free one)")
    if error.errno == errno.EACCES:
        return ConfigError(f"{setting} {port}: this user may not bind it; ports from 1024 on need no privilege")
    return ConfigError(f"cannot bind {host} port {port}: {error.strerror}")
