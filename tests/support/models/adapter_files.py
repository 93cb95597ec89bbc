"""Random adapters, as PEFT saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch


def write_adapter(path: Path, base: Any, seed: int = 0, **options: Any) -> None:
    """Saves an adapter whose every tensor is random."""
    # Here: every worker collects this, and seconds of imports are only for the one that writes an adapter.
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    tuned = get_peft_model(base, LoraConfig(**{"r": 4, "lora_alpha": 6, **options}))
    with torch.no_grad():
        for name, parameter in tuned.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    tuned.save_pretrained(path)
    tuned.unload()
