"""Matrix products in bf16 and FP8 at the models' sizes: what budgets and FP8 are to be chosen by."""

from __future__ import annotations

import torch

from bench.gpu.run import Run
from bench.gpu.shapes import SHAPES
from bench.gpu.stand import Stand, kernel_us, open_stand

ROWS = (16, 32, 64, 128, 256, 512, 1024, 2048, 2816, 4096, 4224, 5632, 8192)
FIRST = ("minilm-l6", "smollm2-135m", "qwen2.5-0.5b", "llama-1b", "bert-base", "qwen3-0.6b")  # if time runs out
POINT_S = 0.012


def measure(run: Run) -> None:
    """One point for each model's (K, N) and number of rows M; heads at a few rows only. Cut short when time is."""
    stand = open_stand(run.dry)
    table: list[dict[str, float | int | str | None]] = []
    left_out = 0
    for k, n, names in sizes(run):
        weight = torch.randn(n, k, device=stand.device).to(torch.bfloat16)
        for rows in (16, 32) if run.dry else ROWS:
            if rows * n > 1 << 28:  # a head's logits of so many rows
                continue
            if run.left_s < 3:
                left_out += 1
                continue
            x = torch.randn(rows, k, device=stand.device).to(torch.bfloat16)
            bf16_us = kernel_us(stand, lambda x=x, w=weight: torch.mm(x, w.t()), seconds=POINT_S)  # type: ignore[misc]
            fp8_us = _fp8_us(stand, x, weight)
            flops = 2.0 * rows * k * n
            point = {"k": k, "n": n, "m": rows, "models": names, "bf16_us": bf16_us, "fp8_us": fp8_us}
            table.append(point | {"bf16_tflops": flops / bf16_us / 1e6, "gain": bf16_us / fp8_us if fp8_us else None})
    run.raw("points", table)
    if left_out:
        run.leave_out(f"{left_out} points: no time left")
    _judge(run, table)


def sizes(run: Run) -> list[tuple[int, int, str]]:
    """(K, N, where) of all products and heads, each once, the most important models first."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in FIRST[:2] if run.dry else FIRST:
        shape = run.shape(name)
        for product, k, n in shape.products():
            found.setdefault((k, n), []).append(f"{name} {product}")
    for name in () if run.dry else FIRST:
        if SHAPES[name].kind == "decoder":
            found.setdefault((SHAPES[name].hidden, SHAPES[name].vocab), []).append(f"{name} head")
    return [(k, n, ", ".join(names)) for (k, n), names in found.items()]


def _fp8_us(stand: Stand, x: torch.Tensor, weight: torch.Tensor) -> float | None:
    """Row-wise scales, quantised before; None where K or N is no multiple of 16."""
    if x.shape[1] % 16 or weight.shape[0] % 16:
        return None
    (a, a_scale), (b, b_scale) = _quantised(x), _quantised(weight)
    if not stand.cuda:  # not every torch has rows' scales there
        a_scale, b_scale = a_scale.amax(), b_scale.amax()

    def product() -> torch.Tensor:
        found: torch.Tensor = torch._scaled_mm(
            a,
            b.t(),
            scale_a=a_scale,
            scale_b=b_scale.t() if stand.cuda else b_scale,
            out_dtype=torch.bfloat16,
            use_fast_accum=stand.cuda,
        )
        return found

    return kernel_us(stand, product, seconds=POINT_S)


def _quantised(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """e4m3 [rows, K] and float32 scales [rows, 1]."""
    scale = values.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / 448
    return (values.float() / scale).to(torch.float8_e4m3fn), scale


def _judge(run: Run, table: list[dict[str, float | int | str | None]]) -> None:
    best = max(table, key=lambda p: float(p["bf16_tflops"] or 0))
    note = f"K {best['k']}, N {best['n']}, M {best['m']}; {len(table)} points"
    run.figure("best bf16 product of the models' sizes", float(best["bf16_tflops"] or 0), "TFLOP/s", note)
    won = [p for p in table if (p["gain"] or 0) > 1]  # type: ignore[operator]
    compared = [p for p in table if p["gain"]]
    run.figure("products in which FP8 is faster, quantising not counted", 100 * len(won) / max(1, len(compared)), "%")
    for name in FIRST[:2] if run.dry else FIRST:
        _budget(run, name, table)


def _budget(run: Run, name: str, table: list[dict[str, float | int | str | None]]) -> None:
    """Rows at which a model's layer costs the least for each of them."""
    products = {(k, n) for _, k, n in run.shape(name).products()}
    cost: dict[int, float] = {}
    for rows in {int(p["m"] or 0) for p in table}:
        found = [p for p in table if p["m"] == rows and (p["k"], p["n"]) in products]
        if len(found) == len(products):
            cost[rows] = sum(float(p["bf16_us"] or 0) for p in found) / rows
    if cost:
        rows = min(cost, key=lambda m: cost[m])
        costs = ", ".join(f"{m}: {1000 * us:.2f}" for m, us in sorted(cost.items()))
        run.figure(f"{name}: rows at which a layer's products are cheapest", rows, "rows", f"ns a row by rows: {costs}")
