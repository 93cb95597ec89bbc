"""The operations between the matrix products of a model on a GPU, each computed by a kernel or by plain torch."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ParamSpec, Protocol, TypeVar

from fastqps.kernels import torch_ops

P = ParamSpec("P")
R = TypeVar("R")
# Modules of launchers that are named otherwise.
_MODULES = {"end_step": "stamps", "logit_options": "sampling.logit_options", "sample": "sampling.sample"}


class Choose(Protocol):
    """Chooses the function of the operation ``name``; ``plain`` is the one in plain torch."""

    def __call__(self, name: str, plain: Callable[P, R], /) -> Callable[P, R]: ...


class Operations:
    """One callable for each name of ``journal.KERNELS``, with the arguments and results of the launchers."""

    def __init__(self, choose: Choose) -> None:
        self.embed_norm = choose("embed_norm", torch_ops.embed_norm)
        self.add_norm = choose("add_norm", torch_ops.add_norm)
        self.activate = choose("activate", torch_ops.activate)
        self.quantise_rows = choose("quantise_rows", torch_ops.quantise_rows)
        self.tile_attention = choose("tile_attention", torch_ops.tile_attention)
        self.pool = choose("pool", torch_ops.pool)
        self.bag_means = choose("bag_means", torch_ops.bag_means)
        self.end_step = choose("end_step", torch_ops.end_step)
        self.embed_tokens = choose("embed_tokens", torch_ops.embed_tokens)
        self.rope_kv = choose("rope_kv", torch_ops.rope_kv)
        self.slot_attention = choose("slot_attention", torch_ops.slot_attention)
        self.last_rows = choose("last_rows", torch_ops.last_rows)
        self.logit_options = choose("logit_options", torch_ops.logit_options)
        self.sample = choose("sample", torch_ops.sample)


def launcher(name: str) -> Callable[..., Any]:
    """The launcher of the kernel of that name. Imports Triton."""
    function: Callable[..., Any] = getattr(import_module(f"fastqps.kernels.{_MODULES.get(name, name)}"), name)
    return function


def own_operations() -> Operations:
    """The kernels, unchecked."""
    return Operations(lambda name, plain: launcher(name))


def torch_operations() -> Operations:
    """Plain torch."""
    return Operations(lambda name, plain: plain)
