"""An adapter of PEFT's LoRA: which tensors of a model it changes, and how."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.adapters.patterns import Targets, first_matches, named
from fastqps.models.files import deciding_files
from fastqps.models.files.config_values import flag, size
from fastqps.models.files.keys import Keys, Refused, rules
from fastqps.models.files.reading import has_file, read_object
from fastqps.models.files.tensors import Tensor, read_tensors
from fastqps.models.files.ways_out import pickled

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_NAME_CHARS_MAX = 1000
_BEFORE = "base_model.model."  # of every tensor's name: PEFT's wrapper, then its tuner
# The end of the architecture's name that each task gives the base; "": the base keeps its own.
_TASKS = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "FEATURE_EXTRACTION": "",
    "CAUSAL_LM": "",
}
_FLOATS = ("F64", "F32", "F16", "BF16")
# Ends of the factors' names: those of a product, and those of a table of vectors.
_FACTORS = {
    ".lora_A.weight": "down",
    ".lora_B.weight": "up",
    ".lora_embedding_A": "table_down",
    ".lora_embedding_B": "table_up",
}
_TABLES = (
    "embed_tokens",
    "lm_head",
    "word_embeddings",
    "tok_embeddings",
)  # saved with the adapter where it changes them
# The keys of adapter_config.json, as PEFT 0.21 writes them for LoRA.
_OFF = (False,)
_NONE: tuple[object, ...] = ([], {})
_OF_TRAINING = ("lora_dropout", "inference_mode", "loftq_config", "eva_config", "corda_config", "lora_ga_config")
_OF_LOADING = ("auto_mapping", "peft_version", "revision", "runtime_config", "megatron_config", "megatron_core")
_WITH_OTHERS = ("qalora_group_size", "velora_config", "ensure_weight_tying")  # mean nothing without what is refused

ADAPTER_KEYS = rules(
    honoured=(
        *("peft_type", "task_type", "base_model_name_or_path", "r", "lora_alpha", "use_rslora", "rank_pattern"),
        *("alpha_pattern", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
        *("modules_to_save",),
    ),
    # fan_in_fan_out is for weights that lie transposed; PEFT goes by the module, whatever the file says.
    irrelevant=(*_OF_TRAINING, *_OF_LOADING, *_WITH_OTHERS, "fan_in_fan_out"),
    refused={
        "use_dora": Refused(_OFF, "DoRA scales each merged row by a norm of its own"),
        "use_qalora": Refused(_OFF, "QALoRA pools a product's inputs"),
        "use_bdlora": Refused(_OFF, "block-diagonal factors are not multiplied"),
        "bias": Refused(("none",), "trained biases are not merged"),
        "lora_bias": Refused(_OFF, "biases of the factors are not merged"),
        "init_lora_weights": Refused(
            (True, False, "gaussian", "orthogonal", "eva"),
            "PEFT changes the base's weights for it; save the adapter with path_initial_model_for_weight_conversion",
        ),
        "layer_replication": Refused(_NONE, "layers are not replicated"),
        "target_parameters": Refused(_NONE, "parameters of mixtures of experts are not adapted"),
        "trainable_token_indices": Refused(_NONE, "rows of trained tokens are not merged; merge them with PEFT"),
        "alora_invocation_tokens": Refused(_NONE, "an activated adapter changes a part of each text alone"),
        # An empty object switches these on.
        "arrow_config": Refused((), "there is one adapter, and no routing among several"),
        "kasa_config": Refused((), "KaSA changes the base's weights"),
        "monteclora_config": Refused((), "an adapter of random weights is not merged"),
    },
)


@dataclass(frozen=True)
class Update:
    """Adds scale · up · down to a tensor [outputs, inputs]: up [outputs, rank], down [rank, inputs].

    Of a ``table`` [rows, width] it adds the transposed product: up [width, rank], down [rank, rows].
    """

    up: Tensor
    down: Tensor
    scale: float
    table: bool

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the product."""
        return self.up.shape[0], self.down.shape[1]


@dataclass(frozen=True)
class Adapter:
    """``replaced`` tensors take the place of the model's, then ``updates`` are added. Both by the names that tensors
    have in transformers' model."""

    root: Path
    updates: Mapping[str, Update]
    replaced: Mapping[str, Tensor]
    architecture: str  # the end of the name of what it makes of its base; "": what that is

    def replaced_rows(self, name: str) -> int | None:
        """The rows of a tensor that it replaces, whatever module that lies in; None if it does not."""
        return next((tensor.shape[0] for full, tensor in self.replaced.items() if named(full, name)), None)

    def files(self) -> list[Path]:
        """All that decide an answer."""
        return [self.root / ADAPTER_CONFIG, self.root / ADAPTER_WEIGHTS]

    def digest(self) -> str:
        """12 hex digits of SHA-256 over the names and contents of its files."""
        return deciding_files.digest(self.root, self.files())


def read_adapter(root: Path) -> Adapter:
    """Reads an adapter's configuration and the header of its weights.

    Raises ``ModelError``, which names the key or the tensor, where it says what cannot be merged.
    """
    path, weights = root / ADAPTER_CONFIG, root / ADAPTER_WEIGHTS
    values = read_object(path)
    config = Keys(str(path), values, ADAPTER_KEYS)
    _check_kind(config, values)
    if not has_file(weights):
        pickles = pickled(file.name for file in root.iterdir())
        raise ModelError(f"{root}: no {ADAPTER_WEIGHTS}" + (f", and {pickles}" if pickles else ""))
    try:
        updates, replaced = _changes(config, read_tensors(weights))
    except ModelError as error:
        raise ModelError(f"{root}: {error}") from error
    if not updates and not replaced:
        raise ModelError(f"{weights}: it has no tensor, so that it would change nothing")
    return Adapter(root, updates, replaced, _TASKS.get(config.get("task_type") or "", ""))


def _check_kind(config: Keys, values: Mapping[str, Any]) -> None:
    if (kind := config.get("peft_type")) != "LORA":
        raise ModelError(f"{config.file}: peft_type {_shown(kind)} is not supported; supported: LORA")
    if (task := config.get("task_type")) is not None and (not isinstance(task, str) or task not in _TASKS):
        raise ModelError(f"{config.file}: task_type {_shown(task)} is not supported; supported: {', '.join(_TASKS)}")
    for key in config.unknown:
        # A newer PEFT would compute something else for it, unless it is switched off.
        if values[key] not in (None, False, [], {}):
            raise ModelError(f"{config.file}: {key[:64]} is not supported: the key is unknown")


def _changes(config: Keys, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Update], dict[str, Tensor]]:
    saved = config.get("modules_to_save") or []
    if not isinstance(saved, list) or not all(isinstance(each, str) for each in saved):
        raise ModelError(f"modules_to_save {_shown(saved)} is no list of names")
    factors: dict[str, dict[str, Tensor]] = {}
    replaced: dict[str, Tensor] = {}
    for full, tensor in tensors.items():
        name = full.removeprefix(_BEFORE)
        if tensor.kind not in _FLOATS:
            raise ModelError(f"tensor {full} is {tensor.kind}; supported: {', '.join(_FLOATS)}")
        if name == full:
            raise ModelError(f"tensor {full}: its name does not begin with {_BEFORE}, as PEFT writes it")
        if not name.isprintable() or len(name) > _NAME_CHARS_MAX:
            raise ModelError(
                f"tensor {full[:100]!r}: its name has more than {_NAME_CHARS_MAX} characters, or strange ones"
            )
        end = next((end for end in _FACTORS if name.endswith(end)), None)
        if end:
            factors.setdefault(name.removesuffix(end), {})[_FACTORS[end]] = tensor
        elif (module_name := _replaced_name(name, saved)) and module_name not in replaced:
            replaced[module_name] = tensor
        else:
            raise ModelError(f"tensor {full} is neither a factor of LoRA nor of a module in modules_to_save")
    targets, scales = Targets(config.get, factors), _Scales(config, factors)
    updates = {f"{module}.weight": _update(module, parts, targets, scales) for module, parts in factors.items()}
    return updates, replaced


def _replaced_name(name: str, saved: list[str]) -> str:
    """The name of the tensor that a whole one replaces; "" where the adapter may not have it."""
    module, _, end = name.rpartition(".")
    module = module.removesuffix(".base_layer")
    parents = module.split(".")
    # PEFT compares ends of names without regard to dots: norm means final_norm, too.
    own = any(".".join(parents[: n + 1]).endswith(each) for n in range(len(parents)) for each in saved if each)
    return f"{module}.{end}" if own or (parents[-1] in _TABLES and end == "weight") else ""


def _update(module: str, parts: Mapping[str, Tensor], targets: Targets, scales: _Scales) -> Update:
    table = "table_up" in parts or "table_down" in parts
    wanted = ("table_up", "table_down") if table else ("up", "down")
    if parts.keys() != set(wanted):
        raise ModelError(f"module {module} has {', '.join(sorted(parts))} of the factors {', '.join(wanted)}")
    if module not in targets:
        raise ModelError(f"module {module} has factors, and target_modules does not name it: PEFT would leave it out")
    up, down = (parts[name] for name in wanted)
    if len(up.shape) != 2 or len(down.shape) != 2 or up.shape[1] != down.shape[0] or not down.shape[0]:
        raise ModelError(f"module {module} has factors of shapes {list(up.shape)} and {list(down.shape)}")
    return Update(up, down, scales.of(module, down.shape[0]), table)


class _Scales:
    """The scale of the product of two factors."""

    def __init__(self, config: Keys, modules: Collection[str]) -> None:
        where = ADAPTER_CONFIG
        self._rank, self._alpha = size(config, "r", 8, where=where), _number(config.get("lora_alpha", 8), "lora_alpha")
        self._root = flag(config, "use_rslora")
        self._ranks, self._alphas = (_by_module(config, key, modules) for key in ("rank_pattern", "alpha_pattern"))

    def of(self, module: str, rank: int) -> float:
        """The factor of a module. ``ModelError`` where its factors have another rank than the configuration says."""
        expected = self._ranks.get(module, self._rank)
        if expected != rank:
            raise ModelError(f"module {module} has factors of rank {rank}, and adapter_config.json says {expected:g}")
        return self._alphas.get(module, self._alpha) / (math.sqrt(rank) if self._root else rank)


def _by_module(config: Keys, key: str, modules: Collection[str]) -> dict[str, float]:
    numbers_by_name = config.get(key) or {}
    if not isinstance(numbers_by_name, dict):
        raise ModelError(f"{key} {_shown(numbers_by_name)} is no object of numbers by module")
    numbers = [_number(value, key) for value in numbers_by_name.values()]
    matches = first_matches(key, [rf"(.*\.)?({text})" for text in numbers_by_name], modules) if numbers_by_name else {}
    return {module: numbers[at] for module, (at, _) in matches.items()}


def _number(value: Any, key: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ModelError(f"{key} {_shown(value)} is no number")
    return float(value)


def _shown(value: Any) -> str:
    return json.dumps(value)[:100]
