"""The server's plan, computed from the configuration and the models' cards: processes, their roles, memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fastqps import _core
from fastqps._core import CALLER_BYTES, DISPATCHERS_MAX, Sizes
from fastqps.config import SETTINGS, Config
from fastqps.config.decide import lanes_of, server_cpus
from fastqps.config.edge import REMOTE
from fastqps.config.values import parse_value
from fastqps.devices import Device, list_devices
from fastqps.errors import ConfigError
from fastqps.host import machine
from fastqps.host.gpus import Gpu
from fastqps.models import ModelCard, ModelError, load_card
from fastqps.models.card import LimitError
from fastqps.models.hub import fetch, is_hub
from fastqps.models.names import aliases, names_of
from fastqps.supervisor.model_options import ModelOptions, check_used, model_options, one_for_each, read_prefixes
from fastqps.supervisor.placement import Cpus, Placement, dispatchers_on_cpu, pinned, unpinned
from fastqps.supervisor.room import Memory, Room, fit_answers, room_of
from fastqps.telemetry.capacity import Capacity, read_capacity
from fastqps.telemetry.metrics.saturation import DEVICE_BUSY_MAX

# Answers by token, which grow with the input: what a slot has room for, by their form, and the memory of each front
# door for larger ones.
_SLOT_BYTES_MAX = {"labels": 4 << 10, "vector": 16 << 10}
_ATTACHMENT_BYTES = 2 << 20  # of a front door, for the schemas, grammars and biases of its requests
_LARGE_BYTES = 64 << 20
_LARGE_BYTES_MAX = 4 << 20  # of one: fewer than 16 would be of little use
# The memory of each front door for answers of generators that are larger than a slot's room: with likeliest tokens, or
# with the prompt's.
_TOP_BYTES = 32 << 20
_LINE_BYTES = 64


@dataclass(frozen=True)
class Plan:
    """A server, before anything is started.

    Dispatchers are numbered by model, then by device, ``dispatchers_each`` for each pair. As many empty worker slots
    follow: when a model is reloaded, the dispatchers of its next generation take them.
    """

    config: Config
    cards: tuple[ModelCard, ...]
    devices: tuple[Device, ...]
    rooms: tuple[Room, ...]  # of each model
    doors: int
    dispatchers_each: int
    threads: int  # compute threads of each lane
    door_cpus: tuple[Cpus, ...]  # of each front door
    dispatcher_cpus: tuple[Cpus, ...]
    aliases: Mapping[str, int] = field(default_factory=dict)  # further names, and the number of each one's model
    capacity: Capacity | None = None

    @property
    def dispatchers(self) -> int:
        """The number of dispatchers that serve at a time."""
        return self.dispatchers_each * len(self.devices) * len(self.cards)

    @property
    def reloads(self) -> bool:
        """Whether there is room for a second generation of each model."""
        return 2 * self.dispatchers <= DISPATCHERS_MAX

    @property
    def workers(self) -> int:
        """The number of worker slots for dispatchers, running or empty."""
        return self.dispatchers * (2 if self.reloads else 1)

    def workers_of(self, model: int, generation: int) -> range:
        """The worker slots of a generation's dispatchers. Successive generations have different ones."""
        each = self.dispatchers_each * len(self.devices)
        first = model * each + generation % 2 * self.dispatchers
        return range(first, first + each)

    def model_of(self, dispatcher: int) -> int:
        """The index of the model that a dispatcher serves."""
        return dispatcher % self.dispatchers // (self.dispatchers_each * len(self.devices))

    def device_of(self, dispatcher: int) -> int:
        """The index of the device that a dispatcher drives."""
        return dispatcher // self.dispatchers_each % len(self.devices)

    def sizes(self) -> Sizes:
        """The sizes of the shared segment."""
        assert self.config.slots  # decided
        large = max(large_answer_bytes(card) for card in self.cards)
        remote = self.config.device == REMOTE
        return Sizes(
            doors=self.doors,
            dispatchers=self.workers,
            models=len(self.cards),
            devices=len(self.devices),
            slots=self.config.slots,
            max_tokens=max(card.max_input_tokens for card in self.cards),
            answer_bytes=max(min(answer_bytes(card), slot_bytes(card)) for card in self.cards),
            large_answers=min(self.config.slots, self._large_memory // large) if large else 0,
            large_answer_bytes=large,
            class_weights=self.config.class_weights,
            caller_bytes=CALLER_BYTES if remote else 0,
            upstreams=int(remote),
            attachment_bytes=_ATTACHMENT_BYTES if any(card.generates for card in self.cards) else 0,
        )

    @property
    def _large_memory(self) -> int:
        """The memory of each front door for large answers."""
        return _LARGE_BYTES if any(card.traits.by_token for card in self.cards) else _TOP_BYTES


def make_plan(config: Config) -> Plan:
    """Makes the plan of a decided configuration. Reads the models' cards; raises ``ModelError`` if one cannot be
    served."""
    cards = read_cards(config)
    devices = list_devices(config.device)
    for card in cards:
        for device in devices:
            device.check(card)
    if not config.dispatchers:
        config = dataclasses.replace(config, dispatchers=dispatchers_on_cpu(config, cards))
    assert config.frontdoors and config.dispatchers  # decided
    each = config.dispatchers * len(devices)
    memory = memory_of(config, cards, devices)
    cards = tuple(fit_answers(card, config, memory) for card in cards)
    cpus = server_cpus(config)
    rooms = tuple(room_of(card, config, memory) for card in cards)
    gpus = [device.gpu for _ in cards for device in devices for _ in range(config.dispatchers)]
    placement = _placement(config, cpus, gpus)
    return Plan(
        config=config,
        cards=cards,
        devices=devices,
        rooms=rooms,
        doors=config.frontdoors,
        dispatchers_each=config.dispatchers,
        threads=_threads(len(cpus), each * sum(room.lanes for room in rooms), placement),
        door_cpus=placement.doors,
        dispatcher_cpus=placement.dispatchers,
        aliases=aliases(config.model),
        capacity=_capacity(config, cards),
    )


def memory_of(config: Config, cards: tuple[ModelCard, ...], devices: tuple[Device, ...]) -> Memory:
    """The memory for KV caches: the smallest GPU's, shared by its dispatchers, or the machine's, shared by all."""
    assert config.dispatchers
    generators = sum(card.generates for card in cards)
    lanes = lanes_of(config, generates=True) * config.dispatchers * generators
    gpus = [device.gpu for device in devices if device.gpu]
    if gpus:
        return Memory.of(lanes, min(gpus, key=lambda gpu: gpu.memory_bytes))
    return Memory.of(lanes * len(devices))


def _capacity(config: Config, cards: tuple[ModelCard, ...]) -> Capacity | None:
    if not config.capacity:
        return None
    if len(cards) > 1:
        raise ConfigError(f"--capacity is for a server of one model; this one has {len(cards)}")
    found = read_capacity(config.capacity)
    found.check(cards[0].name, config.device)
    return found


def doubts(capacity: Capacity, config: Config, version: str) -> list[str]:
    """Log lines about differences between the server that was measured and this one."""
    found = [doubt] if (doubt := capacity.doubt(version)) else []
    if others := _other_settings(capacity, config):
        found.append(f"--capacity was measured with other settings: {'; '.join(others)}")
    if "device" in capacity.at_knee and "device_load" not in capacity.at_knee:
        found.append(
            "--capacity was measured by an older version, which did not say device_load: until you measure again, a "
            f"device is at its limit where its work in full batches would take {DEVICE_BUSY_MAX} of the time"
        )
    return found


def _other_settings(capacity: Capacity, config: Config) -> list[str]:
    """Lists the settings that differ from those of the measurement, as ``dispatchers 2, now 1``."""
    found = []
    for setting in SETTINGS:
        then, now = capacity.settings.get(setting.key), getattr(config, setting.field)
        if setting.key in ("model", "device", "config") or then is None:
            continue
        try:
            same = parse_value(setting, then) == now
        except ValueError:
            same = False
        if not same:
            found.append(f"{setting.key} {then}, now {setting.format(now)}")
    return found


def answer_bytes(card: ModelCard) -> int:
    """The size of a model's longest answer in a slot; of a generator, without anything of the prompt."""
    return _core.answer_bytes(
        card.traits,
        dimensions=card.dimensions,
        max_input_tokens=card.max_input_tokens,
        max_output_tokens=card.max_output_tokens,
    )


def slot_bytes(card: ModelCard) -> int:
    """The most bytes of a model's answer that every slot has room for."""
    return _SLOT_BYTES_MAX[card.traits.form] if card.traits.by_token else answer_bytes(card)


def large_answer_bytes(card: ModelCard) -> int:
    """The size of a large answer for a model whose longest answer is more than its slots have room for; else 0.

    That of a generator is one with as many likeliest tokens as a request can have, in the places of the prompt's, too.
    """
    if card.generates:  # requests with more are refused
        all_of_it = _core.largest_generation_bytes(
            max_input_tokens=card.max_input_tokens, max_output_tokens=card.max_output_tokens
        )
        longest = min(all_of_it, _LARGE_BYTES_MAX)
        return -(-longest // _LINE_BYTES) * _LINE_BYTES
    longest = answer_bytes(card)
    if longest > _LARGE_BYTES_MAX and longest > slot_bytes(card):
        fit = card.max_input_tokens * _LARGE_BYTES_MAX // longest
        raise ConfigError(
            f"--max-input-tokens {card.max_input_tokens}: the longest answer of {card.name} takes {longest >> 20} MiB, "
            f"and at most {_LARGE_BYTES_MAX >> 20} are possible: {fit} tokens"
        )
    return -(-longest // _LINE_BYTES) * _LINE_BYTES if longest > slot_bytes(card) else 0


def read_cards(config: Config) -> tuple[ModelCard, ...]:
    """Reads the cards of all models. Raises ``ModelError`` or ``ConfigError``."""
    named = named_models(config)
    names = [name for name, _ in named]
    every = [name for model in config.model for name in names_of(model)[0]]
    if twice := next((name for name in every if every.count(name) > 1), None):
        raise ConfigError(f"--model: two models are named {twice!r}; name them with NAME=DIR")
    options = model_options(config, names)
    cards = tuple(_card(name, path, config, options[name]) for name, path in named)
    check_used(read_prefixes(config.prefix, names), cards)
    return cards


def named_models(config: Config) -> list[tuple[str, str]]:
    """(name, directory or known name) of each model, as the user wrote it."""
    return [(names[0], place) for names, place in map(names_of, config.model)]


def read_card(name: str, path: str, config: Config) -> ModelCard:
    """Reads the card, the prefix and the template from the files as they are now. Raises ``ModelError`` or
    ``ConfigError``."""
    return _card(name, path, config, model_options(config, [name for name, _ in named_models(config)])[name])


def fetch_again(name: str, path: str, config: Config) -> None:
    """Resolves the revisions of a model and of its adapter again, where the hub has them, and downloads those that are
    new. Raises ``ModelError``."""
    adapter = one_for_each("adapter", config.adapter, [other for other, _ in named_models(config)]).get(name, "")
    for text, is_adapter in ((path, False), (adapter, True)):
        if is_hub(text):
            fetch(text, adapter=is_adapter, offline=config.hub_offline)


def _card(name: str, path: str, config: Config, options: ModelOptions) -> ModelCard:
    try:
        return load_card(
            path,
            config.max_input_tokens,
            name,
            max_output_tokens=config.max_output_tokens,
            prefix_text=options.prefix,
            allow_single_texts=config.allow_single_texts,
            adapter=options.adapter,
            labels=options.labels,
            template=options.template,
        )
    except LimitError as error:
        raise ConfigError(f"{' or '.join(_flag(key, config) for key in error.lower)}: {error}") from None
    except ModelError as error:
        if options.prefix:
            _card(name, path, config, dataclasses.replace(options, prefix=""))  # raises the model's own errors first
            raise ConfigError(f"--prefix: {error}") from None
        raise


def _flag(key: str, config: Config) -> str:
    value = getattr(config, key)
    return f"--{key.replace('_', '-')}" + (f" {value}" if isinstance(value, int) else "")


def _threads(cpus: int, lanes: int, placement: Placement) -> int:
    """The compute threads of a lane: one for a pinned dispatcher, since more threads than CPUs wait for each other."""
    return 1 if any(placement.dispatchers) else max(1, machine.usable_cores(cpus) // lanes)


def _placement(config: Config, cpus: Cpus, gpus: Sequence[Gpu | None]) -> Placement:
    """The placement of all processes. With the cpu device none is pinned, because it computes on all cores."""
    assert config.frontdoors
    if config.pin == "off" or config.device == "cpu":
        return unpinned(config.frontdoors, len(gpus))
    return pinned(cpus, config.frontdoors, gpus)
