"""Random steps for the operations of encoders, and for those of rows that decoders share."""

from __future__ import annotations

from itertools import accumulate, cycle, islice
from typing import Any

import torch

from fastqps.kernels.checks.inputs import Case, Inputs, Random
from fastqps.kernels.layers import Tables
from fastqps.kernels.shapes import ROWS_TOGETHER_FROM, pool_shape, row_shape

_LENGTHS = (1, 100, 33, 2, 40)  # rows of items: they begin and end inside tiles, and at their borders
_TOKENS_MIN = 130  # more than the largest tile
_TOKENS_OF_MANY = 1890  # in a step of ROWS_TOGETHER_FROM
_ROWS, _PADDING = 43, 6  # of operations on rows; tiles have 8
_SPARE = 14  # rows of padding
_ITEMS_MAX = 1 << 16  # more than a step has


def _lengths(longest: int, items: int, tokens: int = _TOKENS_MIN) -> list[int]:
    lengths: list[int] = []
    for length in cycle(_LENGTHS):
        if sum(lengths) >= tokens or len(lengths) == items:
            return lengths
        lengths.append(min(length, longest))
    return lengths


def embed_norm(random: Random, a: dict[str, Any]) -> Case:
    tables: Tables = a["tables"]
    places, kinds, offset, entries = tables.places, tables.kinds, tables.position_offset, len(a["cu_seqlens"])
    longest = _LENGTHS[1] if places is None else min(_LENGTHS[1], len(places) - offset)
    several = row_shape(tables.words.shape[1], len(a["ids"])).rows > 1
    lengths = _lengths(longest, entries - 1, _TOKENS_OF_MANY if several else _TOKENS_MIN)
    total = sum(lengths)
    rows = ROWS_TOGETHER_FROM if several else total + _SPARE
    ids = random.below(len(tables.words), rows)
    if offset:
        ids[::5] = offset - 1  # padding in texts
    step = {
        "ids": ids,
        "types": None if a["types"] is None else random.below(1 if kinds is None else len(kinds), rows),
        "cu_seqlens": random.ints([0, *accumulate(lengths)], entries),
        "counts": random.ints([total, len(lengths), longest], len(a["counts"])),
        "stamps": random.stamps(a["stamps"]),
    }
    return Case(a | step, rows=dict.fromkeys(("values", "fp8", "scale"), total))


def add_norm(random: Random, a: dict[str, Any]) -> Case:
    rows, width = a["x"].shape
    rows = ROWS_TOGETHER_FROM if row_shape(width, rows).rows > 1 else _ROWS
    count, live = _count(random, a, rows)
    x, residual = (random.normal(rows, width, like=a["x"]) for _ in range(2))
    step = {"x": x + 0.5, "residual": None if a["residual"] is None else residual, "count": count}
    return Case(a | step, rows=dict.fromkeys(("sum", "values", "fp8", "scale"), live))


def activate(random: Random, a: dict[str, Any]) -> Case:
    count, live = _count(random, a)
    x = 3 * random.normal(_ROWS, a["x"].shape[1], like=a["x"])
    return Case(a | {"x": x, "count": count}, rows=dict.fromkeys(("values", "fp8", "scale"), live))


def quantise_rows(random: Random, a: dict[str, Any]) -> Case:
    count, live = _count(random, a)
    x = random.normal(_ROWS, a["x"].shape[1], like=a["x"])
    sizes = torch.logspace(-2, 2, _ROWS, device=x.device)[:, None].to(x.dtype)
    return Case(a | {"x": x * sizes, "count": count}, rows=dict.fromkeys(("fp8", "scale"), live))


def _count(random: Random, a: dict[str, Any], rows: int = _ROWS) -> tuple[torch.Tensor | None, int]:
    """``count`` as the call has it, and which of so many rows are no padding."""
    live = rows - _PADDING
    return (None, rows) if a["count"] is None else (random.ints([live], len(a["count"])), live)


def tile_attention(random: Random, a: dict[str, Any]) -> Case:
    rotary, bias, relative = a["attention"].rotary, a["attention"].bias, a["attention"].relative
    longest = min(_LENGTHS[1], a["longest"] or _LENGTHS[1], _LENGTHS[1] if rotary is None else len(rotary))
    longest = longest if bias is None else min(longest, bias.shape[1] // 2)
    longest = longest if relative is None else min(longest, (relative.shape[3] - 16) // 2)
    lengths = _lengths(longest, _TOKENS_MIN)
    marks = [0, *accumulate(lengths)]
    total = marks[-1]
    start, end = ([marks[i + n] for i, length in enumerate(lengths) for _ in range(length)] for n in (0, 1))
    rows = total + _SPARE
    step = {
        "qkv": random.normal(rows, a["qkv"].shape[1], like=a["qkv"], live=total),
        "row_start": random.ints(start + [total] * _SPARE, rows),
        "row_end": random.ints(end + [total] * _SPARE, rows),
    }
    if a["positions"] is not None:
        opening = a["attention"].opening.shape[2]
        room = max(lengths) + opening if rotary is None else len(rotary)
        halves = islice(cycle((opening, 0, 1, opening // 2)), len(lengths))
        fronts = [min(front, room - length) for front, length in zip(halves, lengths, strict=True)]
        places = [at for front, n in zip(fronts, lengths, strict=True) for at in range(front, front + n)]
        step["positions"] = random.ints(places, rows)
    return Case(a | step, rows={"result": total})


def pool(random: Random, a: dict[str, Any]) -> Case:
    """A few more items than programs take in their first turn."""
    width = a["hidden"].shape[1]
    items = pool_shape(width, _ITEMS_MAX).items + len(_LENGTHS)
    lengths = list(islice(cycle(_LENGTHS), items))
    total = sum(lengths)
    step = {
        "hidden": random.normal(total + _SPARE, width, like=a["hidden"], live=total),
        "cu_seqlens": random.ints([0, *accumulate(lengths)], items + 4),
        "counts": random.ints([total, items, _LENGTHS[1]], len(a["counts"])),
        "out": None if a["out"] is None else random.normal(items + 3, width, like=a["out"]),
        "stamps": random.stamps(a["stamps"]),
    }
    if a["ids"] is not None:
        ids = random.below(4, total + _SPARE)
        step["ids"] = torch.where(ids == 0, a["skipped"], ids + a["skipped"] + 1).int()
    return Case(a | step, ["out"] if a["out"] is not None else [], {"out": items, "result": items})


def bag_means(random: Random, a: dict[str, Any]) -> Case:
    """Ids that name a row, ids beyond the table, and an item that has only skipped ids."""
    lengths, n_ids, table = _lengths(_LENGTHS[1], _TOKENS_MIN), a["n_ids"], a["table"]
    total, items = sum(lengths), len(lengths)
    ids = random.below(n_ids + 2, total + _SPARE)
    ids[: lengths[0]] = a["skipped_id"] if a["skipped_id"] >= 0 else n_ids
    ids[lengths[0] :: 7] = a["skipped_id"] if a["skipped_id"] >= 0 else 0
    rows = len(table)
    step = {
        "mapping": None if a["mapping"] is None else random.below(rows, n_ids),
        "weights": None if a["weights"] is None else random.normal(n_ids, like=a["weights"]),
        "ids": ids,
        "cu_seqlens": random.ints([0, *accumulate(lengths)], items + 4),
        "counts": random.ints([total, items, _LENGTHS[1]], len(a["counts"])),
        "out": None if a["out"] is None else random.normal(items + 3, table.shape[1], like=a["out"]),
        "stamps": random.stamps(a["stamps"]),
    }
    return Case(a | step, ["out"] if a["out"] is not None else [], {"out": items, "result": items})


def end_step(random: Random, a: dict[str, Any]) -> Case:
    """Checks only that the kernel runs: torch has no clock to compare with."""
    return Case({"stamps": random.stamps(a["stamps"])})


ENCODER_INPUTS: dict[str, Inputs] = {
    "embed_norm": embed_norm,
    "add_norm": add_norm,
    "activate": activate,
    "quantise_rows": quantise_rows,
    "tile_attention": tile_attention,
    "pool": pool,
    "bag_means": bag_means,
    "end_step": end_step,
}
