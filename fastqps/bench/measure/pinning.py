"""The CPUs of the server and of the load generator: if they share any, one of them measures the other."""

from __future__ import annotations

from dataclasses import dataclass

from fastqps.errors import ConfigError
from fastqps.host import machine

Cpus = tuple[int, ...]


@dataclass(frozen=True)
class Pinning:
    """Empty: not confined."""

    server: Cpus = ()
    load: Cpus = ()
    note: str = ""  # what a reader of the result must know about it

    def as_json(self) -> dict[str, list[int]]:
        """The JSON value for ``Result.target``."""
        return {"server_cpus": list(self.server), "load_cpus": list(self.load)}


def pinning(mode: str, load_threads: int, *, own_server: bool, local: bool) -> Pinning:
    """``auto``: the load on the last CPUs, one for each thread, the server that we start on all others. ``off``: none.

    A server elsewhere on this machine keeps the CPUs that it has; one on another machine leaves us all of this one.
    """
    if mode not in ("auto", "off"):
        raise ConfigError(f"--pin {mode!r} is neither auto nor off")
    allowed = machine.allowed_cpus()
    if mode == "off" or not local:
        return Pinning()
    if len(allowed) <= load_threads:
        if load_threads > 1:
            raise ConfigError(f"--load-threads {load_threads} leave none of {len(allowed)} CPUs to the server")
        return Pinning(note="one CPU only: the load generator takes time from the server")
    load = allowed[-load_threads:]
    if not own_server:
        return Pinning(load=load, note="the server may share CPUs with the load generator: it was not started here")
    return Pinning(allowed[:-load_threads], load)
