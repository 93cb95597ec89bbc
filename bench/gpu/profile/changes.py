"""Possible changes to a step, and the most that each would gain: computed from its profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.gpu.profile.timeline import Gaps, Kind

# Kernels whose whole work could be done by a neighbour; all others can only come nearer to their bound.
FUSIONS = {
    "activate": "compute the activation in the epilogue of the up product",
    "add_norm": "compute residual sum and norm in the epilogue of the product in front",
    "rope_kv": "rotate and write keys and values inside the attention kernel",
    "quantise_rows": "quantise rows in the kernel that makes them",
    "last_rows": "read the last rows where they are needed",
    "sample_chunks": "reduce the logits in the epilogue of the head product",
}
GAPS = "launch dependent kernels early (programmatic dependent launch), or fill the gaps from a second lane"
LEAST = 0.005  # of a step: less is not worth a change


@dataclass(frozen=True)
class Change:
    """``gain_us`` at most, of a step of ``step_us``. Gains of several changes overlap and do not add up."""

    what: str
    gain_us: float
    step_us: float
    why: str

    @property
    def share(self) -> float:
        """Of the step."""
        return self.gain_us / self.step_us

    def as_json(self) -> dict[str, Any]:
        """For the raw figures."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.what}: at most {self.gain_us:.0f} of {self.step_us:.0f} µs ({100 * self.share:.0f} %); {self.why}"
        )


def changes_of(kinds: Sequence[Kind], step_us: float, gaps: Gaps | None) -> list[Change]:
    """Of one step, the largest first. Without ``gaps`` nothing is said of them."""
    inside = [kind for kind in kinds if kind.sort != "copy"]  # copies run before and behind what is timed
    launches = sum(kind.launches for kind in inside)
    each_us = gaps.sum_us / launches if gaps and launches else 0.0
    found = []
    if gaps:
        why = f"{launches:.0f} kernels, {gaps.median_us:.2f} µs between two, at most {gaps.largest_us:.2f} µs"
        found.append(Change(GAPS, gaps.sum_us, step_us, why))
    found += [_change(kind, each_us, step_us) for kind in inside]
    return sorted((c for c in found if c.share >= LEAST), key=lambda change: -change.gain_us)


def _change(kind: Kind, each_us: float, step_us: float) -> Change:
    spent = f"{kind.us:.0f} µs in {kind.launches:.0f} launches"
    if kind.name in FUSIONS:
        gain_us = kind.us + kind.launches * each_us
        moved = f" for {kind.bytes / 1e6:.0f} MB" if kind.bytes else ""
        return Change(f"{FUSIONS[kind.name]} ({kind.name})", gain_us, step_us, f"{spent}{moved}, and their gaps")
    if not kind.bound_us:
        return Change(f"remove {kind.name}", kind.us, step_us, spent)
    part = f"{spent}, bound {kind.bound_us:.0f} µs ({100 * kind.bound_us / kind.us:.0f} % of it)"
    how = (
        "less fixed time and exposed stores, other tiles or FP8"
        if kind.sort == "cuBLAS"
        else "bring the kernel to its bound"
    )
    return Change(f"{kind.name}: {how}", max(0.0, kind.us - kind.bound_us), step_us, part)


def ranked(cases: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[tuple[str, float, str]]:
    """Over all profiled steps: (change, mean share of a step, its largest case), the largest mean first."""
    shares: dict[str, dict[str, Change]] = {}
    for case, changes in cases.items():
        for fields in changes:
            change = Change(**fields)
            shares.setdefault(change.what, {})[case] = change
    found = []
    for what, by_case in shares.items():
        case = max(by_case, key=lambda name: by_case[name].share)
        mean = sum(change.share for change in by_case.values()) / len(cases)
        found.append((what, mean, f"most in {case}: {by_case[case]}"))
    return sorted(found, key=lambda each: -each[1])
