"""Sockets that are bound at start and begin to listen when the server is ready."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator

from fastqps.config.settings import UNIX
from fastqps.errors import ConfigError

BACKLOG = 4096
UNIX_MODE = 0o660  # of a socket in the file system: to connect one must be able to write to it
SO_ATTACH_FILTER = 26
# Classic BPF over the TCP header, as (code, jump if true, jump if false, constant): the flags' byte; SYN; drop; keep.
DROP_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
# After a SIGKILL the kernel takes a moment to end the old server's processes, which still hold the port.
RETRY_S = 1.0


class UnixSocket(socket.socket):
    """A socket in the file system. Its file appears when it begins to listen, and goes when it is closed.

    A file that a killed server has left is replaced. A socket that answers, or anything else there, is left alone. Of
    several servers that begin to listen at the same moment one succeeds: each looks and listens while it has locked the
    directory.
    """

    def __init__(self, path: str, setting: str) -> None:
        self.path = path
        self._setting = setting
        self._inode: int | None = None  # of the file, while it is ours
        self.check()
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self.setblocking(False)

    def check(self) -> None:
        """Raises ``ConfigError`` if the socket cannot listen at its path."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            other.settimeout(RETRY_S)
            try:
                other.connect(self.path)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                stale = isinstance(error, ConnectionRefusedError)
            except OSError as error:
                raise ConfigError(f"{self._setting} unix:{self.path}: {error.strerror}") from None
            else:
                raise ConfigError(
                    f"{self._setting} unix:{self.path}: another server listens there; choose another path"
                )
        if stale and not stat.S_ISSOCK(os.stat(self.path).st_mode):
            raise ConfigError(
                f"{self._setting} unix:{self.path}: a file is there that is no socket; choose another path"
            )
        if not os.access(os.path.dirname(self.path), os.W_OK | os.X_OK):
            raise ConfigError(f"{self._setting} unix:{self.path}: this user may not create files in that directory")

    def listen(self, backlog: int = BACKLOG, /) -> None:
        """Raises ``ConfigError``."""
        try:
            with self._alone():
                self.check()
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path)
                self.bind(self.path)
                self._inode = os.stat(self.path).st_ino
                os.chmod(self.path, UNIX_MODE)  # before anybody can connect
                super().listen(backlog)
        except OSError as error:
            raise ConfigError(f"{self._setting} unix:{self.path}: {error.strerror}") from None

    def remove(self) -> None:
        """Removes the file, unless another server has put its own there."""
        if self._inode is None:
            return
        with contextlib.suppress(OSError), self._alone():
            if self._inode == os.stat(self.path).st_ino:
                os.unlink(self.path)
        self._inode = None

    def close(self) -> None:
        self.remove()
        super().close()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other servers from doing the same in this directory. ``OSError`` if one does for too long."""
        directory = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        give_up = time.monotonic() + 2 * RETRY_S  # a server looks for one of them
        try:
            while True:
                try:
                    fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > give_up:
                        raise OSError(errno.EAGAIN, "another process holds a lock on that directory") from None
                time.sleep(0.01)
            yield
        finally:
            os.close(directory)


def bind(host: str, port: int | str, setting: str, host_setting: str = "--host") -> socket.socket:
    """Returns a bound TCP socket that does not listen yet, or of ``unix:PATH`` one without a file.

    Raises ``ConfigError``, which names the setting.
    """
    if isinstance(port, str):
        return UnixSocket(port.removeprefix(UNIX), setting)
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{host_setting} {host!r}: {getattr(error, 'strerror', error)}") from None
    give_up = time.monotonic() + RETRY_S
    while True:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        # Allows addresses that are still used by old connections. It also lets two servers bind, but the second fails
        # to listen.
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
    """Starts to listen, so that clients can connect. The front doors accept them."""
    try:
        sock.listen(BACKLOG)
    except OSError as error:
        host, port = sock.getsockname()[:2]
        raise _refused(host, port, setting, error) from None


def refuse_new(sock: socket.socket) -> None:
    """Ignores new connections from now on. Those that have begun can still be accepted.

    When a socket stops listening, the kernel resets all connections that wait for accept, even with requests under way.
    So new connections must be stopped first: a socket filter drops their SYN. Clients repeat it after a second, and are
    refused then. A Unix socket loses its file.
    """
    if isinstance(sock, UnixSocket):
        sock.remove()
        return
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in DROP_SYN)
    buffer = ctypes.create_string_buffer(program)
    filter_ = struct.pack("@HP", len(DROP_SYN), ctypes.addressof(buffer))
    with contextlib.suppress(OSError):  # a kernel without filters: a few connections may be reset
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)


def address(sock: socket.socket) -> str:
    """``host:port``, or ``unix:PATH``, as clients write it."""
    if isinstance(sock, UnixSocket):
        return UNIX + sock.path
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refused(host: str, port: int, setting: str, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(f"port {port} on {host} is in use; choose another with {setting} (0: any free one)")
    if error.errno == errno.EACCES:
        return ConfigError(f"{setting} {port}: this user may not bind it; ports from 1024 on need no privilege")
    return ConfigError(f"cannot bind {host} port {port}: {error.strerror}")
