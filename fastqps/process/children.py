"""The settings that the supervisor passes to a child at its start, the only contract between both sides of ``launch``.

Everything else (models, limits, the phase of the server) is in the shared segment.
"""

from __future__ import annotations

import dataclasses
import json
import signal
from dataclasses import dataclass
from typing import Any, ClassVar

# Asks a dispatcher to finish its steps and exit. One that is not ready yet has no steps and dies at once.
LEAVE = signal.SIGUSR1
FENCED = 70  # exit code of a dispatcher that has been declared dead
# Asks a front door to load a generation that warms up, or to drop one that is gone. A process that does not handle it
# yet ignores it.
LOAD_ROUTES = signal.SIGURG


@dataclass(frozen=True)
class Settings:
    """The settings of all roles. Descriptors are inherited and open; times are in nanoseconds."""

    module: ClassVar[str]  # whose ``main`` takes them

    index: int  # the number of this front door or dispatcher, from 0
    title: str  # "frontdoor 0", "dispatcher 1 (cpu)": for the process title and the log
    parent_pid: int
    parent_fd: int  # read end of a pipe that closes when the supervisor dies
    segment_fd: int
    wake_dispatchers: tuple[int, ...]  # eventfds, by index
    wake_doors: tuple[int, ...]
    cpus: tuple[int, ...]  # empty: those of the supervisor


@dataclass(frozen=True)
class DoorSettings(Settings):
    """The settings of a front door."""

    module = "fastqps.frontdoor.process"
    credentials_fd: int  # of a credentials.Vault
    admin: str  # HOST:PORT of the admin port
    dtype: str  # of the models that are not static, for clients that ask
    repeatable: str  # whose products do not depend on the other rows of a step: of "all" models, "static" ones, "none"
    native: str  # JSON for the native front door, which alone knows its keys: csrc/contract/settings.h


@dataclass(frozen=True)
class DispatcherSettings(Settings):
    """The settings of a dispatcher. Its model's card is ``Segment.card(route)``."""

    module = "fastqps.dispatcher.loop"
    epoch: int  # of this incarnation; each restart has a higher one
    route: int  # model * generations + generation
    device: str  # one device, even if the server has several
    device_index: int  # its line in the segment
    device_make: str  # all of one make are equally fast
    dtype: str
    quantization: str
    weights_fd: int  # in-memory file of the weight holder; -1: the dispatcher has its own weights
    table_fd: int  # in-memory file of a static model's table, which its dispatchers share; -1: it is another model
    kernels: str
    kernels_fd: int  # the file of the server's kernels.journal
    threads: int  # CPU threads to compute with
    max_batch_items: int  # generators: sequences that run at a time
    choose_items: bool  # max_batch_items is the most, of which the first dispatcher chooses
    max_batch_tokens: int
    max_step_time_ns: int  # 0: any; else items and tokens are the most, of which the first dispatcher chooses
    lanes: int
    async_steps: bool


@dataclass(frozen=True)
class EdgeSettings(Settings):
    """The settings of a dispatcher that sends its steps to other servers. Its model's card is ``Segment.card(route)``.

    The files of ``credentials`` are read by the child itself: what they hold does not belong on a command line.
    """

    module = "fastqps.dispatcher.edge"
    epoch: int
    route: int
    upstreams: tuple[tuple[str, int], ...]  # host and port, as the user named them
    credentials: tuple[str, str, str, str]  # the fields of credentials.UpstreamFiles
    max_batch_items: int  # of one message
    lanes: int  # connections to each address
    on_trial: bool  # of a reload: it is not ready before a server of its version answers


@dataclass(frozen=True)
class HolderSettings(Settings):
    """The settings of a process that holds a model's weights on a GPU for its dispatchers."""

    module = "fastqps.dispatcher.weight_holder"
    route: int
    device: str
    dtype: str
    quantization: str
    weights_fd: int  # a file in memory, empty


def write_settings(settings: Settings) -> str:
    """Returns the settings as one line of JSON, for the child's command line."""
    return json.dumps({"kind": type(settings).__name__, **dataclasses.asdict(settings)})


def read_settings(text: str) -> Settings:
    """Reads the settings that ``write_settings`` wrote."""
    found: dict[str, Any] = json.loads(text)
    kinds = {kind.__name__: kind for kind in Settings.__subclasses__()}
    return kinds[found.pop("kind")](**{key: _tuples(value) for key, value in found.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
