"""Findings about the server that ``fastqps serve`` would start with the same settings. No weights are loaded."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from fastqps.config import decide, load
from fastqps.config.settings import OFF, Config
from fastqps.devices.names import resolve_dtype
from fastqps.doctor import Finding
from fastqps.errors import ConfigError, FastqpsError
from fastqps.host import machine
from fastqps.models import ModelCard
from fastqps.models.cards import deciding_files
from fastqps.models.files.tensors import read_tensors
from fastqps.supervisor.listener import bind, listen
from fastqps.supervisor.plan import Plan, make_plan
from fastqps.supervisor.room import format_size

_COMPUTES = ("cpu", "cuda")  # devices that load weights


def examine_server(flags: Mapping[str, Any], environ: Mapping[str, str], config_file: str | None) -> Iterator[Finding]:
    """The settings of all sources; and if they name a model, each model, the memory and the ports that they take."""
    try:
        loaded = load(flags, environ, config_file)
    except ConfigError as error:
        yield Finding("settings", str(error), "lack")
        return
    origins = Counter(loaded.origin.values())
    yield Finding("settings", ", ".join(f"{n} from {origin}" for origin, n in origins.items()) or "the defaults")
    if not loaded.config.model:
        return
    try:
        plan = make_plan(decide(loaded.config))
        memory = _memory(plan)
    except FastqpsError as error:
        yield Finding("serve", str(error), "lack")
        return
    for card in plan.cards:
        yield Finding(f"serve {card.name}", _described(card))
        yield from (Finding(f"serve {card.name}", warning, "note") for warning in card.warnings)
    yield memory
    yield from _ports(plan.config)


def _described(card: ModelCard) -> str:
    width = f"{len(card.labels)} labels" if card.labels else f"{card.dimensions} dimensions"
    if card.generates:
        width = f"answers of {card.max_output_tokens} tokens"
    return f"{card.task}, {card.family}: inputs of {card.max_input_tokens} tokens, {width}; @{card.version} {card.path}"


def _memory(plan: Plan) -> Finding:
    """Compares the memory of weights and caches with what the machine has. Raises ``ModelError``."""
    config = plan.config
    if not config.device.startswith(_COMPUTES):
        return Finding("serve: memory", f"no weights are loaded: the device is {config.device}")
    gpus = [device.gpu for device in plan.devices if device.gpu]
    copies = plan.dispatchers_each * (1 if gpus else len(plan.devices))
    weights = sum(map(_numbers, plan.cards)) * (2 if resolve_dtype(config.device, config.dtype) != "float32" else 4)
    weights *= 1 if gpus and config.share_weights else copies
    caches = sum(room.kv_bytes * room.lanes for room in plan.rooms) * copies
    there = min((gpu.memory_bytes for gpu in gpus), default=machine.memory_bytes() - machine.memory_used_bytes())
    value = f"weights {format_size(weights)}" + (f", KV caches {format_size(caches)}" if caches else "")
    value += f" (dispatchers {copies}); {format_size(there)} {'on each GPU' if gpus else 'available'}"
    if weights + caches > there:
        return Finding("serve: memory", value, "lack", "lower --dispatchers, --max-running or --max-output-tokens")
    return Finding("serve: memory", value)


def _numbers(card: ModelCard) -> int:
    files = [file for file in deciding_files(card) if file.suffix == ".safetensors"]
    return sum(prod(tensor.shape) for file in files for tensor in read_tensors(file).values())


def _ports(config: Config) -> Iterator[Finding]:
    """Takes all ports that the server would listen on, and frees them."""
    listeners = [(config.host, config.port, "--port", "--host")]
    if config.http_port != OFF:
        listeners.append((config.host, config.http_port, "--http-port", "--host"))
    listeners.append((config.admin_host, config.admin_port, "--admin-port", "--admin-host"))
    with contextlib.ExitStack() as taken:
        for host, port, setting, host_setting in listeners:
            try:
                listen(taken.enter_context(bind(host, port, setting, host_setting)), setting)
            except ConfigError as error:
                yield Finding(f"serve: {setting}", str(error), "lack")
            else:
                where = port if isinstance(port, str) else f"{host}:{port or 'any'}"
                yield Finding(f"serve: {setting}", f"{where} is free")
