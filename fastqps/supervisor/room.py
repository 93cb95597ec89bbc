"""How much one dispatcher of a model can hold at a time: requests, tokens, and sequences of a generator."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastqps.config import Config
from fastqps.config.decide import lanes_of, most_items, most_running
from fastqps.config.edge import REMOTE
from fastqps.config.units import format_bytes
from fastqps.devices.names import resolve_dtype
from fastqps.errors import ConfigError
from fastqps.host import machine
from fastqps.host.gpus import Gpu
from fastqps.models import ModelCard
from fastqps.models.card import KV_PADDING_SLOTS
from fastqps.models.decoder_card import ANSWER_TOKENS_LEAST

# Without --max-running all KV caches together take at most 1 / this number of the memory.
MEMORY_SHARE = 4
GPU_MEMORY_SHARE = 2  # only weights and graphs need memory besides
_RUNNING_LEAST = 64  # sequences, before answers may be longer than the least


@dataclass(frozen=True)
class Room:
    """The room of each lane of a dispatcher. ``running`` and ``kv_bytes`` (a lane's KV cache) are 0 for an encoder."""

    items: int  # most requests that a step answers
    tokens: int  # most tokens of a step
    running: int = 0  # most sequences at a time; each has a row in every step
    kv_bytes: int = 0
    choose: bool = False  # whether dispatchers measure how many of ``items`` are enough
    lanes: int = 1


@dataclass(frozen=True)
class Memory:
    """The memory that holds KV caches, and the number of generators' lanes that share it."""

    bytes: int
    sharers: int
    share: int
    whose: str

    @classmethod
    def of(cls, sharers: int, gpu: Gpu | None = None) -> Memory:
        """The memory of a GPU, or of the machine."""
        if gpu:
            return cls(gpu.memory_bytes, sharers, GPU_MEMORY_SHARE, f"{gpu.name}'s")
        return cls(machine.memory_bytes(), sharers, MEMORY_SHARE, "this machine's")


def room_of(card: ModelCard, config: Config, memory: Memory) -> Room:
    """The items and tokens that a lane of this model has room for.

    Raises ``ConfigError`` if a step cannot hold the sequences, or the memory cannot hold their KV cache.
    """
    assert config.max_batch_tokens and config.frontdoors  # decided
    generates = card.generates
    lanes = lanes_of(config, generates=generates)
    if config.device == REMOTE:  # of a message; what a server holds at a time, the server decides
        return Room(most_items(config), config.max_batch_tokens, most_items(config) if generates else 0, lanes=lanes)
    if not generates:
        choose = config.max_batch_items is None
        return Room(most_items(config), config.max_batch_tokens, choose=choose, lanes=lanes)
    rows = config.max_batch_tokens - card.max_input_tokens
    if rows < (config.max_running or 1):
        raise ConfigError(
            f"--max-batch-tokens {config.max_batch_tokens}: a step of {card.name} holds a token of each of "
            f"{config.max_running or 'the'} running sequences and the longest prompt, of {card.max_input_tokens}; "
            f"that is at least {card.max_input_tokens + (config.max_running or 1)}"
        )
    running = config.max_running or _running_auto(card, config, rows, memory)
    kv_bytes = _kv_bytes(card, running, config)
    if kv_bytes * memory.sharers > memory.bytes:
        who = "lanes" if lanes > 1 else "dispatchers"
        raise ConfigError(
            f"--max-running {running}: the KV caches of {memory.sharers} {who} would take "
            f"{format_size(kv_bytes * memory.sharers)} of {memory.whose} {format_size(memory.bytes)}; lower it, "
            "--max-input-tokens or --max-output-tokens"
        )
    choose = config.max_running is None and config.device != "null"
    return Room(running, config.max_batch_tokens, running, kv_bytes, choose, lanes)


def fit_answers(card: ModelCard, config: Config, memory: Memory) -> ModelCard:
    """The card with as long answers as leave memory for some sequences, if no setting says how long they may be."""
    if not card.generates or config.max_output_tokens is not None:
        return card
    running, share = config.max_running or _RUNNING_LEAST, memory.bytes // memory.share // memory.sharers
    while card.max_output_tokens > ANSWER_TOKENS_LEAST and _kv_bytes(card, running, config) > share:
        card = replace(card, max_output_tokens=max(ANSWER_TOKENS_LEAST, card.max_output_tokens // 2))
    return card


def on_gpu(config: Config) -> bool:
    """Whether a decided configuration runs on a GPU."""
    return config.device.startswith("cuda")


def format_size(n: int) -> str:
    """A size for people: exact below 1 MiB, else with one digit behind the point."""
    if n < 1 << 20:
        return format_bytes(n)
    return f"{n / (1 << 20):.1f} MiB" if n < 1 << 30 else f"{n / (1 << 30):.1f} GiB"


def _running_auto(card: ModelCard, config: Config, rows: int, memory: Memory) -> int:
    assert config.frontdoors and config.slots
    most = min(
        most_running(config.device), rows, config.slots * config.frontdoors
    )  # there are never more requests than slots
    share = memory.bytes // memory.share // memory.sharers
    if _kv_bytes(card, most, config) <= share:
        return most
    positions = share // (card.kv_values * _number_bytes(config))
    return max(1, (positions - len(card.prefix_ids)) // card.kv_positions - KV_PADDING_SLOTS)


def _kv_bytes(card: ModelCard, running: int, config: Config) -> int:
    """The size of one dispatcher's KV cache, with the prefix."""
    if config.device != "cpu" and not on_gpu(config):  # null and modelled devices have no cache
        return 0
    return card.kv_numbers(running) * _number_bytes(config)


def _number_bytes(config: Config) -> int:
    return 2 if resolve_dtype(config.device, config.dtype) in ("bfloat16", "float16") else 4
