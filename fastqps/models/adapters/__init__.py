"""Adapters of PEFT: what their files say. ``architectures`` merges them into a model's weights. No torch here."""

from fastqps.models.adapters.adapter import ADAPTER_CONFIG, ADAPTER_WEIGHTS, Adapter, Update, read_adapter

__all__ = ["ADAPTER_CONFIG", "ADAPTER_WEIGHTS", "Adapter", "Update", "read_adapter"]
