"""The server that is measured: one that runs somewhere, or one that is started here with the settings of a point."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from fastqps.bench.measure.generator import child_prefix
from fastqps.bench.measure.workload import Payloads
from fastqps.bench.results.result import BenchError
from fastqps.config import SETTINGS, Loaded, decide, load
from fastqps.devices.profile_file import load_profile
from fastqps.errors import CallError, ConfigError, FastqpsError, Unimplemented
from fastqps.process.server_process import ServerError, ServerProcess
from fastqps.telemetry.live.remote import fetch_counts

if TYPE_CHECKING:
    from fastqps.api.served_model import Model
    from fastqps.client.sync import Client


from dataclasses import field


@dataclass(frozen=True)
class Access:
    """All but ``token`` are paths; "": not used. ``token`` is what ``token_file`` holds: the load generator reads the
    file itself, so that no command line and no report shows the token."""

    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    token_file: str = ""
    token: str = field(default="", repr=False)

    @property
    def client_options(self) -> dict[str, Any]:
        """The options of a ``Client``."""
        return {"tls_ca": self.tls_ca, "tls_cert": self.tls_cert, "tls_key": self.tls_key, "token": self.token}

    @property
    def generator_flags(self) -> list[str]:
        """The flags of ``python -m loadgen`` for the access."""
        paths = {name: getattr(self, name) for name in ("tls_ca", "tls_cert", "tls_key", "token_file")}
        return [part for name, path in paths.items() if path for part in (f"--{name.replace('_', '-')}", path)]


Settings = Mapping[str, Any]  # by key (max-batch-items), values as on the command line; a list for a flag that repeats
_LOGGED = re.compile(r"^\S+ [A-Z]+ supervisor: ")  # what begins a line of its log
_OURS = ("host", "port", "http-port", "admin-port", "log-format", "log-level")


@dataclass(frozen=True)
class Server:
    """The running server. ``admin`` "": its metrics cannot be reached; ``pid`` None: its processes are not ours.

    ``ready_after_s``: from the start of its process, where that was here.
    """

    address: str
    admin: str
    pid: int | None
    ready_after_s: float = 0.0


class Target:
    """A context manager: what was started here is ended with it."""

    def __init__(
        self,
        base: Settings,
        *,
        address: str = "",
        admin: str = "",
        config_file: str = "",
        access: Access | None = None,
    ) -> None:
        """``base``: settings that all points share. With ``address`` nothing is started, and there are no settings;
        ``access`` is what its server asks of clients.

        Raises ``ConfigError`` for settings that no server has.
        """
        host, _, port = address.rpartition(":")
        if address and not (host and port.isdecimal() and 0 < int(port) < 65536):
            raise ConfigError(f"--address {address}: write HOST:PORT")
        if address and (base or config_file):
            given = next((f"--{key}" for key in base), "--config")
            raise ConfigError(
                f"{given} is a setting of a server that is started here; the one at {address} has its own"
            )
        self.address, self.admin, self.base, self.config_file = address, admin, dict(base), config_file
        self.access = access or Access()
        self._process: ServerProcess | None = None
        self._running: tuple[dict[str, Any], tuple[int, ...]] | None = None
        check_settings(base, config_file)
        if admin:
            fetch_counts(admin)  # asked for, so it has to be there

    @property
    def own(self) -> bool:
        """It is started here."""
        return not self.address

    @property
    def local(self) -> bool:
        """It runs on this machine."""
        if self.own:
            return True
        host = self.address.rpartition(":")[0].strip("[]")
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def use(self, settings: Settings, cpus: Sequence[int] = ()) -> Server:
        """A server with ``base`` and these settings on these CPUs; one that runs with just them is used again.

        Raises ``ConfigError`` for settings that cannot be, ``BenchError`` where it does not start.
        """
        if not self.own:
            if settings:
                raise ConfigError("this mode varies settings, which needs a server started here; leave out --address")
            return Server(self.address, self.admin, None)
        wanted = {**self.base, **settings}, tuple(cpus)
        if self._process is None or wanted != self._running or self._process.ended:
            self.close()
            check_settings(wanted[0], self.config_file)
            self._start(*wanted)
        assert self._process is not None
        process = self._process
        return Server(process.address, process.admin, process.pid, process.ready_after_s)

    def loaded(self, settings: Settings) -> Loaded:
        """The whole configuration of a server with ``base`` and these, and where each setting comes from."""
        return load({**self.base, **settings}, os.environ, self.config_file or None)

    def refusal(self, settings: Settings) -> str:
        """Why no server with ``base`` and these settings can be; "" if one can."""
        try:
            check_settings({**self.base, **settings}, self.config_file)
            decide(self.loaded(settings).config)
        except ConfigError as error:
            return str(error)
        return ""

    def gone(self, server: Server, *, ask: bool) -> str:
        """Why the server cannot be measured any more; "" if it is there. ``ask``: it must also answer."""
        if self._process is not None and self._process.ended:
            return f"the server ended with exit code {self._process.drain()} while it was measured"
        try:
            if ask:
                self.model(server)
        except BenchError as error:
            if self._process is not None:
                self._process.kill()  # it may be stopped: it would not end by itself
            return f"the server went away while it was measured: {error}"
        return ""

    def model(self, server: Server, name: str = "") -> Model:
        """The served model of this name, or the default one. Raises where there is none, or no fastqps server."""
        try:
            with self._client(server) as client:
                models = client.models(timeout_s=10)
        except Unimplemented:
            raise BenchError(f"{server.address} is no fastqps server: it does not know its models") from None
        except CallError as error:
            raise BenchError(f"no fastqps server answers at {server.address}: {error}") from None
        model = next((m for m in models if (m.name == name if name else m.is_default)), None)
        if model is None:
            served = ", ".join(m.name for m in models)
            raise ConfigError(f"{server.address} does not serve {name!r}; it serves: {served}")
        return model

    def try_one(self, server: Server, payloads: Payloads) -> None:
        """Asks once for the first item that is to be sent. Raises ``CallError``."""
        from fastqps.v1 import predict_pb2 as pb

        batch = payloads.call.method.endswith("Batch")
        item = pb.PredictBatchRequest.FromString(payloads.first).items[0] if batch else None
        with self._client(server) as client:
            client.predict(item or pb.PredictRequest.FromString(payloads.first), timeout_s=60)

    def device(self, server: Server) -> dict[str, Any]:
        """``device``: as it is configured, or as a server elsewhere says. ``profiles`` of those that are modelled."""
        if self.own:
            text = decide(load(self.base, os.environ, self.config_file or None).config).device
        else:
            text = fetch_counts(server.admin)["device"].partition(" (")[0] if server.admin else ""
        return {"device": text, "profiles": _profiles(text)}

    def describe(self) -> dict[str, Any]:
        """The JSON value for ``Result.target``; the model is added when it is known."""
        where = {"address": None if self.own else self.address, "own": self.own, "settings": dict(self.base)}
        secured = {"tls": True} if self.access.tls_ca else {}
        return where | secured | ({"config": self.config_file} if self.config_file else {})

    def close(self) -> None:
        """Ends the server that was started here, if one runs."""
        if self._process is not None:
            process, self._process = self._process, None
            try:
                process.drain()
            except KeyboardInterrupt:  # whoever cannot wait for that still wants the results
                process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _client(self, server: Server) -> Client:
        """Raises ``ConfigError`` for files that make no credentials."""
        from fastqps.client.sync import Client  # it imports grpc: not before the settings are known to be right

        try:
            return Client(server.address, **self.access.client_options)
        except (ValueError, OSError) as error:
            raise ConfigError(str(error)) from None

    def _start(self, settings: dict[str, Any], cpus: tuple[int, ...]) -> None:
        flags = (["--config", self.config_file] if self.config_file else []) + as_flags(settings)
        process = ServerProcess(*flags, prefix=child_prefix(cpus), own_group=True)
        try:
            process.__enter__()
        except ServerError as error:
            raise BenchError(f"the server did not start: {_reason(str(error))}", process.drain()) from None
        self._process, self._running = process, (settings, cpus)


def _profiles(device: str) -> list[dict[str, str]]:
    """Notes on modelled devices whose profiles can be read here."""
    profiles = []
    for spec in device.split(","):
        kind, _, name = spec.strip().partition(":")
        if kind == "sim":
            with contextlib.suppress(FastqpsError):
                profile = load_profile(name)
                profiles.append({"name": profile.name, "status": profile.status, "source": profile.source})
    return profiles


def check_settings(settings: Settings, config_file: str = "") -> None:
    """Raises ``ConfigError`` for what ``fastqps serve`` would refuse, without starting one."""
    known = {setting.key for setting in SETTINGS}
    for key in settings:
        if key in _OURS:
            raise ConfigError(f"--{key} is not yours to set here: the bench takes free ports of the loopback interface")
        if key not in known:
            from fastqps.config.sources import suggestion

            raise ConfigError(f"fastqps serve has no --{key}{suggestion(f'--{key}', [f'--{one}' for one in known])}")
    load(settings, {}, config_file or None)


def as_flags(settings: Settings) -> list[str]:
    """The settings as flags of the command line."""
    flags = []
    for key, value in settings.items():
        values = value if isinstance(value, list | tuple) else [value]
        flags += [f"--{key}={_text(one)}" for one in values]
    return flags


def _text(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _reason(log: str) -> str:
    """Why the server ended: its last line, without the time, but for the one that says that it has."""
    lines = [_LOGGED.sub("", line.strip()) for line in log.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if line != "stopped"), "stopped").removeprefix("fastqps: ")
