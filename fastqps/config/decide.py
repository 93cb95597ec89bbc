"""Fills in what the user left to us, from the machine, and checks the settings against each other."""

from __future__ import annotations

import dataclasses

from fastqps.config.edge import DISPATCHERS_CORES, MESSAGE_ITEMS, REMOTE, check_edge
from fastqps.config.settings import OFF, Config
from fastqps.config.tenants import tenant_header, tenant_weights
from fastqps.errors import ConfigError
from fastqps.host import machine

DISPATCHERS_MAX = 64  # over all models: one bit each in a route's mask
MODELS_MAX = 16
_STEP_INPUT_MIN = 512  # tokens of its longest input that a step has room for, also where models take less
_SLOTS_MIN, _SLOTS_MAX, _SLOT_IDS_BYTES_MAX, _ID_BYTES = 1024, 8192, 64 << 20, 4
_ITEMS_CPU, _ITEMS_NULL, _ITEMS_MOST = 64, 256, 1024  # of a step whose best size is yet to be measured, by device
# Sequences of a generator's lane, where steps, slots and memory have room for them; on GPUs up to which it is measured.
_RUNNING, _RUNNING_GPU = 1024, 4096


def decide(config: Config) -> Config:
    """The same configuration with every ``auto`` decided, but for what each model has of its own
    (``max_input_tokens``, ``max_running``, the ``lanes`` of cuda and the ``dispatchers`` of cpu), and for
    ``max_batch_items``, which are measured at the start. Downloads models and adapters of the hub, reads models'
    configurations, loads none, and imports no torch.

    Raises ``ModelError`` for a model that cannot be downloaded, ``ConfigError``, and ``DeviceError`` for a device that
    this version does not have.
    """
    from fastqps.models.names import explicit  # here: not every command needs it

    device, devices = _device(config)
    check_edge(config, device)
    remote = device == REMOTE
    models = tuple(map(explicit, config.model or _default_model()))
    config = dataclasses.replace(config, adapter=tuple(map(explicit, config.adapter)))
    if len(models) > MODELS_MAX:
        raise ConfigError(f"--model: {len(models)} models; at most {MODELS_MAX} can be served")
    if config.any_model_name and len(models) > 1:
        raise ConfigError(f"--any-model-name is for a server of one model; this one has {len(models)}")
    cores = machine.usable_cores(len(server_cpus(config)))
    modelled = device.startswith("sim:")
    gpu = device.startswith("cuda")
    dispatchers = config.dispatchers
    if not dispatchers and remote:
        dispatchers = 2 if cores >= DISPATCHERS_CORES else 1
    elif not dispatchers and device != "cpu":
        dispatchers = 1 if modelled or gpu else max(1, cores // 2 // len(models))
    if dispatchers and dispatchers * len(models) * devices > DISPATCHERS_MAX:
        total = f"{dispatchers} for each of {len(models)} models"
        total += f" and {devices} devices" if devices > 1 else ""
        raise ConfigError(f"--dispatchers: {total} is more than {DISPATCHERS_MAX} in all")
    if config.quantization != "none" and not gpu and device != "cpu":
        raise ConfigError(f"--quantization {config.quantization}: device {device} computes nothing")
    if config.kernels == "own" and not gpu:
        raise ConfigError(f"--kernels own: the own kernels are for cuda, and the device is {device}")
    if config.share_weights and not gpu:
        raise ConfigError(f"--share-weights: weights are shared on GPUs, and the device is {device}")
    doors = cores - dispatchers * len(models) if remote and dispatchers else cores // 4
    tenant_header(config), tenant_weights(config)  # they only check here
    _fetch(config, models)
    small = device == "cpu"
    longest = config.max_input_tokens or max(_own_limit(model, bool(config.labels)) for model in models)
    running = config.max_running or most_running(device)
    longest_step = (config.max_input_tokens or max(_STEP_INPUT_MIN, longest)) + running
    tokens = config.max_batch_tokens or max(4096 if small else 16384, longest_step)
    if tokens < longest:
        raise ConfigError(
            f"--max-batch-tokens {tokens} is less than the longest input, of {longest} tokens, which would fit into no "
            "batch; raise it, or lower --max-input-tokens"
        )
    slots = config.slots or _slots(longest)
    if slots & (slots - 1):
        raise ConfigError(f"--slots {slots} is not a power of two; try {1 << slots.bit_length()}")
    return dataclasses.replace(
        config,
        model=models,
        http_port=OFF if 0 != config.port == config.http_port else config.http_port,  # both speak HTTP
        device=device,
        frontdoors=config.frontdoors or min(32, max(1, doors)),
        dispatchers=dispatchers,
        lanes=config.lanes or (None if gpu else 2 if remote else 1),
        max_batch_items=config.max_batch_items or {"null": _ITEMS_NULL, REMOTE: MESSAGE_ITEMS}.get(device),
        max_batch_tokens=tokens,
        slots=slots,
    )


def most_items(config: Config) -> int:
    """The most items of a step: those that are set, or those up to which dispatchers look for the best size."""
    return config.max_batch_items or (_ITEMS_CPU if config.device == "cpu" else _ITEMS_MOST)


def lanes_of(config: Config, *, generates: bool) -> int:
    """The lanes of each dispatcher of a model. On GPUs a second one fills gaps between an encoder's kernels; a
    generator's sequences are as fast in the larger steps of one."""
    return config.lanes or (1 if generates else 2)


def most_running(device: str) -> int:
    """The most sequences of a generator's lane without --max-running."""
    return _RUNNING_GPU if device.startswith(("cuda", "sim:")) else _RUNNING


def most_dispatchers(config: Config) -> int:
    """The most dispatchers of a model: those that are set, or one for each core, if a reload has room for as many."""
    cores, models = machine.usable_cores(len(server_cpus(config))), max(1, len(config.model))
    return config.dispatchers or max(1, min(cores, DISPATCHERS_MAX // 2) // models)


def _fetch(config: Config, models: tuple[str, ...]) -> None:
    """Downloads what the hub has to give, before anything is started: each revision is resolved here, once."""
    from fastqps.models import hub  # here: not every command needs it

    for texts, adapter in ((models, False), (config.adapter, True)):
        for text in dict.fromkeys(text.partition("=")[2] or text for text in texts):
            if hub.is_hub(text):
                hub.fetch(text, adapter=adapter, offline=config.hub_offline)


def _own_limit(model: str, labelled: bool) -> int:
    """The longest input of a model as the user wrote it. One that cannot be read is refused later, with its reason.

    ``labelled``: a decoder may have labels, and then takes as much as an encoder."""
    from fastqps.errors import ModelError
    from fastqps.models.cards import default_input_limit  # here: not every command needs it

    try:
        return default_input_limit(model.partition("=")[2] or model, labelled)
    except ModelError:
        return 1


def _slots(longest: int) -> int:
    """The slots of each front door: as many as their memory limit for ids allows, but at least ``_SLOTS_MIN``."""
    slots = _SLOTS_MAX
    while slots > _SLOTS_MIN and slots * longest * _ID_BYTES > _SLOT_IDS_BYTES_MAX:
        slots //= 2
    return slots


def server_cpus(config: Config) -> tuple[int, ...]:
    """The CPUs that the server may use: what ``--pin`` lists, or all that this process may run on."""
    allowed = machine.allowed_cpus()
    if config.pin in ("auto", "off"):
        return allowed
    listed = _cpu_list(config.pin)
    if missing := [cpu for cpu in listed if cpu not in allowed]:
        raise ConfigError(f"--pin: CPU {missing[0]} is not one of those that this process may use: {_ranges(allowed)}")
    return listed


def _device(config: Config) -> tuple[str, int]:
    """(``config.device``, decided; how many devices that is)."""
    from fastqps.devices import choose_device, list_devices  # here: it imports numpy, which not every command needs

    name = choose_device().device if config.device == "auto" else config.device
    devices = list_devices(name)
    if config.dtype == "float16" and devices[0].gpu is None:
        raise ConfigError(f"--dtype float16: the device {name} has float32 and bfloat16; float16 is for cuda")
    if config.mps == "on" and not (devices[0].gpu and devices[0].gpu.vendor.mps):
        raise ConfigError(f"--mps on: MPS is for NVIDIA's GPUs, and the device is {devices[0].description}")
    gpus = [device.gpu for device in devices if device.gpu]
    if gpus:  # these, also where its capacity is compared with what was measured elsewhere
        name = "cuda:" + ",".join(str(gpu.index) for gpu in gpus)
    return name, len(devices)


def _default_model() -> tuple[str, ...]:
    from fastqps.models.names import not_installed, packaged

    if packaged("minilm") is None:
        raise ConfigError(f"no --model was given, and {not_installed('minilm')}")
    return ("minilm",)


def _cpu_list(text: str) -> tuple[int, ...]:
    try:
        found = machine.parse_cpus(text)
    except ValueError as error:
        raise ConfigError(f"--pin {text!r}: neither auto, off nor a list of CPUs such as 0-3,8: {error}") from None
    if not found:
        raise ConfigError("--pin: an empty list; write auto, off or a list of CPUs such as 0-3,8")
    return found


def _ranges(cpus: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
