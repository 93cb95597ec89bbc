"""The tuner's search on surfaces whose best setting is known, with noise, drift and failures."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from fastqps.bench.search.choice import DOUBT_MAX
from fastqps.bench.search.search import Knob, Search, SearchOutcome
from fastqps.bench.statistics.race import Noise, Race, Rules, race
from loadgen.statistics import t_quantile

pytestmark = pytest.mark.compute

DISPATCHERS = Knob("dispatchers", (1, 2, 4, 8))
SEEDS = range(100)


def noisy(rate: float, noise: float, rng: random.Random) -> float:
    return rate * (1 + rng.gauss(0, noise))


def raced(rates: dict[int, float], noise: float, seed: int, drift: float = 0.0) -> tuple[int | None, int]:
    """(the chosen number of dispatchers, probes). ``drift``: by how much the machine changes from run to run."""
    rng, runs = random.Random(seed), 0

    def probe(setting: dict[str, Any]) -> float:
        nonlocal runs
        runs += 1
        return noisy(rates[setting["dispatchers"]], noise, rng) * (1 + drift * runs)

    found = Search([DISPATCHERS], probe).run()
    return found.setting and found.setting["dispatchers"], found.probes


def answers(rates: dict[int, float], noise: float, drift: float = 0.0) -> Counter[int | None]:
    return Counter(raced(rates, noise, seed, drift)[0] for seed in SEEDS)


@pytest.mark.parametrize(
    ("rates", "best"),
    [
        ({1: 67, 2: 109, 4: 124, 8: 84}, 4),  # more helps, then hurts
        ({1: 100, 2: 90, 4: 80, 8: 70}, 1),
        ({1: 100, 2: 80, 4: 100, 8: 140}, 8),  # a climb that stops at the first step down never sees it
        ({1: 100, 2: 150, 4: 150, 8: 150}, 2),  # no more dispatchers than needed
        ({1: 100, 2: 100, 4: 100, 8: 100}, 1),
        ({1: 100, 2: 101, 4: 101, 8: 101}, 1),  # a gain below the least that counts
    ],
)
def test_best_of_one_knob(rates: dict[int, float], best: int) -> None:
    for noise, least in ((0.0, 100), (0.005, 100), (0.02, 92)):
        found = answers(rates, noise)
        assert found[best] >= least, (noise, found)


def test_noise_alone_is_no_gain() -> None:
    """Also where runs differ by more than was guessed: the simplest stays in nearly all of the searches."""
    for noise in (0.04, 0.08):
        found = answers(dict.fromkeys(DISPATCHERS.values, 100), noise)
        assert found[1] >= 85, (noise, found)


def test_drift_is_no_gain() -> None:
    """A machine that gets 1 % faster or slower with every run."""
    for drift in (0.01, -0.01):
        assert answers(dict.fromkeys(DISPATCHERS.values, 100), 0.01, drift)[1] >= 95
        assert answers({1: 67, 2: 109, 4: 124, 8: 84}, 0.01, drift)[4] >= 95


def test_clear_races_are_short_and_all_are_bounded() -> None:
    clear = [raced({1: 67, 2: 109, 4: 124, 8: 84}, 0.02, seed)[1] for seed in SEEDS]
    flat = [raced(dict.fromkeys(DISPATCHERS.values, 100), 0.02, seed)[1] for seed in SEEDS]
    assert sum(clear) / len(clear) < 10  # two rounds of four, seldom more
    assert max(flat) <= 4 * Rules().rounds_max


KNOBS = (
    DISPATCHERS,
    Knob("lanes", (1, 2, 3)),
    Knob("max-batch-items", (64, 16, 256)),
    Knob("max-batch-delay", ("0us", "500us")),
)


def surface(setting: dict[str, Any]) -> float:
    """Dispatchers and lanes both hide the host's work up to the device's ceiling; large batches raise the ceiling."""
    hidden = setting["dispatchers"] ** 0.8 * (1 + 0.3 * (setting["lanes"] - 1))
    items = {16: 0.6, 64: 1.0, 256: 1.1}[setting["max-batch-items"]]
    delay = 1.0 if setting["max-batch-delay"] == "0us" else 0.97
    return min(hidden, 3.0) * 100 * items * delay


def searched(probe: Callable[[dict[str, Any]], float], **more: Any) -> SearchOutcome:
    return Search(KNOBS, probe, **more).run()


def test_several_knobs() -> None:
    """Four dispatchers reach the ceiling alone, so lanes stay 1."""
    best = {"dispatchers": 4, "lanes": 1, "max-batch-items": 256, "max-batch-delay": "0us"}
    right = 0
    for seed in range(40):
        rng = random.Random(seed)
        found = searched(lambda setting, rng=rng: noisy(surface(setting), 0.02, rng))
        right += found.setting == best
        assert found.complete
        assert 0.01 < found.noise < 0.04
    assert right >= 36


def test_a_knob_that_is_needed_no_longer_goes_back() -> None:
    """Two dispatchers pay until batches are large: then one is enough, and the second pass says so."""
    knobs = (Knob("dispatchers", (1, 2)), Knob("max-batch-items", (16, 256)))

    def probe(setting: dict[str, Any]) -> float:
        return 200.0 if setting["max-batch-items"] == 256 else 50.0 * setting["dispatchers"]

    found = Search(knobs, probe).run()
    assert found.setting == {"dispatchers": 1, "max-batch-items": 256}
    assert [choice.chosen for choice in found.choices] == [2, 256, 1, 256]


def test_probes_are_bounded_and_running_out_of_them_is_said() -> None:
    probes = 0

    def probe(setting: dict[str, Any]) -> float:
        nonlocal probes
        probes += 1
        return surface(setting)

    found = searched(probe, probes_max=20)
    assert found.probes == probes <= 20
    assert not found.complete
    assert found.setting is not None and found.setting["dispatchers"] == 4  # what was raced counts


def test_settings_that_fail_are_never_the_answer() -> None:
    """More than two dispatchers do not hold the SLO; nor does anything where the limit is impossible."""
    found = searched(lambda setting: surface(setting) if setting["dispatchers"] <= 2 else 0.0)
    assert found.setting is not None and found.setting["dispatchers"] == 2
    assert "4: not within the limits" in found.choices[0].reason
    assert searched(lambda setting: 0.0).setting is None


def test_one_failure_is_forgiven() -> None:
    failed = False

    def run(candidate: int) -> float:
        nonlocal failed
        if candidate == 1 and not failed:
            failed = True
            return 0.0
        return (100.0, 200.0)[candidate]

    assert race(run, 2, Rules(), Noise(), 100).winner == 1


# ---- what a search leaves open


def test_noise_that_hides_the_best_leaves_the_search_open() -> None:
    """Runs of one setting lie 60 % apart: the simplest stays, and nobody says that it is the best."""
    left_open = 0
    for seed in SEEDS:
        rng = random.Random(seed)
        found = Search([DISPATCHERS], lambda s, rng=rng: 100 * math.exp(rng.gauss(0, 0.4))).run()
        left_open += bool(found.open)
        assert all(one.gain is None or one.gain.upper > math.log1p(DOUBT_MAX) for one in found.open)
    assert left_open >= 90
    quiet = Search([DISPATCHERS], lambda s: noisy(100, 0.02, random.Random(s["dispatchers"]))).run()
    assert quiet.open == () and quiet.complete


def test_a_search_that_is_cut_short_within_a_race_is_not_complete() -> None:
    found = Search(
        [DISPATCHERS], lambda s: {1: 100.0, 2: 101.0, 4: 99.0, 8: 100.0}[s["dispatchers"]], probes_max=4
    ).run()
    assert found.probes == 4 and not found.complete


def test_a_search_that_still_changes_after_its_passes_is_not_complete() -> None:
    knobs = (Knob("dispatchers", (1, 2)), Knob("max-batch-items", (16, 256)))
    found = Search(knobs, lambda s: 50.0 * s["dispatchers"] + s["max-batch-items"], passes_max=1).run()
    assert found.setting == {"dispatchers": 2, "max-batch-items": 256} and not found.complete


def test_what_did_not_run_has_no_rate() -> None:
    """Its runs are None, not 0, and it is neither beaten nor the answer."""
    found = Search([DISPATCHERS], lambda s: None if s["dispatchers"] == 8 else surface({**s, **PLAIN})).run()
    choice = found.choices[0]
    assert choice.race.standings[-1].rates == (None, None) and choice.race.standings[-1].gain is None
    assert "8: not known" in choice.reason and "not within the limits" not in choice.reason
    assert [(one.value, one.gain) for one in found.open] == [(8, None)]
    assert found.setting == {"dispatchers": 4}
    assert Search([DISPATCHERS], lambda s: None).run().setting is None


PLAIN = {"lanes": 1, "max-batch-items": 64, "max-batch-delay": "0us"}


def test_a_race_over_neighbours_does_not_close_what_an_earlier_one_left_open() -> None:
    """The second pass looks at 1 and 2 only: that nothing is known of 8 still holds."""
    knobs = (DISPATCHERS, Knob("max-batch-items", (16, 256)))

    def probe(setting: dict[str, Any]) -> float | None:
        return None if setting["dispatchers"] == 8 else 100.0 + setting["max-batch-items"]

    found = Search(knobs, probe).run()
    assert len(found.choices) == 3 and found.choices[-1].values == (1, 2)
    assert [one.value for one in found.open] == [8]


def test_the_report_says_why_the_winner_won_and_by_how_much() -> None:
    found = Search([DISPATCHERS], lambda s: {1: 67.0, 2: 109.0, 4: 124.0, 8: 84.0}[s["dispatchers"]]).run()
    reason = found.choices[0].reason
    assert reason.startswith("dispatchers 4 (1: -46.0 % ±") and "8: -32.3 %" in reason
    lead = found.choices[0].lead
    assert lead is not None and lead.over == 2
    assert math.expm1(lead.gain.mean) == pytest.approx(124 / 109 - 1)
    assert (
        lead.beyond_noise == pytest.approx(math.expm1(lead.gain.mean - lead.gain.half))
        and 0.05 < lead.beyond_noise < 0.13
    )
    why = found.choices[0].why
    assert (
        why.startswith("it is faster than 2 by +13.8 % ±") and f"{100 * lead.beyond_noise:.1f} % of that beyond" in why
    )
    assert found.over_start is not None and math.expm1(found.over_start.mean) == pytest.approx(124 / 67 - 1)
    unchanged = Search([DISPATCHERS], lambda s: 100.0).run()
    assert unchanged.over_start is None
    equal = unchanged.choices[0]
    assert equal.lead is not None and equal.lead.beyond_noise == 0
    assert equal.why.startswith("it is the simplest that the noise does not tell from the best; 2 may be faster by ")
    alone = Search([DISPATCHERS], lambda s: 100.0 if s["dispatchers"] == 1 else 0.0).run().choices[0]
    assert alone.lead is None and alone.why == "the only one with a rate"
    assert Search([DISPATCHERS], lambda s: 0.0).run().choices[0].why == "kept, because no value held the limits"


def test_settings_that_are_not_allowed_are_not_tried() -> None:
    tried: list[dict[str, Any]] = []

    def probe(setting: dict[str, Any]) -> float:
        tried.append(setting)
        return surface(setting)

    found = searched(probe, allowed=lambda setting: setting["dispatchers"] * setting["lanes"] <= 4)
    assert found.setting is not None and found.setting["dispatchers"] == 4
    assert all(setting["dispatchers"] * setting["lanes"] <= 4 for setting in tried)


def test_a_race_turns_its_order_round() -> None:
    order: list[int] = []
    found: Race = race(lambda c: order.append(c) or 100.0, 3, Rules(rounds_max=2), Noise(), 100)
    assert order == [0, 1, 2, 2, 1, 0]
    assert (found.winner, found.rounds, found.runs) == (0, 2, 6)


def test_noise_is_learned() -> None:
    """Ten rounds that differ by 10 % outweigh the guess of 2 %."""
    rng, noise = random.Random(1), Noise()
    rounds = [[rng.gauss(0, 0.1) for _ in range(50)] for _ in range(2)]
    noise.learn(*rounds)
    assert 0.08 < noise.deviation < 0.12
    gain = noise.gain([0.5], [0.0])
    assert gain is not None and gain.mean == 0.5
    assert 0.2 < gain.half < 0.4  # of one round: 2 × 0.1 × sqrt(2)


def test_t_quantiles() -> None:
    """Against the printed tables. Welch's degrees of freedom are no whole numbers; between them and far out they are
    not too small."""
    table = {
        0.9: {1: 3.078, 2: 1.886, 3: 1.638, 4: 1.533, 7: 1.415, 30: 1.310},
        0.975: {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 7: 2.365, 30: 2.042},
    }
    for p, row in table.items():
        for freedom, expected in row.items():
            assert t_quantile(p, freedom) == pytest.approx(expected, rel=2e-3), (p, freedom)
    for between, exact in ((1.2, 8.649), (1.5, 6.017), (1.9, 4.527), (2.5, 3.575)):
        assert t_quantile(0.975, between) >= exact
    for freedom, exact in ((3, 12.924), (4, 8.610), (8, 5.041)):
        assert t_quantile(0.9995, freedom) == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("wrong", [{"gain_min": -0.1}, {"gain_min": 1.0}, {"rounds_min": 1}, {"rounds_max": 1}])
def test_impossible_rules(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no such rules"):
        Rules(**wrong)


def test_a_knob_without_values() -> None:
    for values in ((), (1, 1)):
        with pytest.raises(ValueError, match="twice"):
            Knob("lanes", values)
