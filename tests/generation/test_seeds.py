"""The seeds of several prompts in one call of the engine."""

import shutil
from pathlib import Path

import fastqps


def test_prompts_without_a_seed_draw_their_own_and_a_given_one_holds_for_each(tmp_path: Path) -> None:
    folder = shutil.copytree(Path(fastqps.__path__[0]) / "data/grammar", tmp_path / "grammar")
    engine = fastqps.Engine(str(folder), dtype="float32")
    drawn = engine.generate(["She"] * 8, temperature=2.0, max_tokens=8)
    assert len({tuple(each.token_ids) for each in drawn}) > 1
    given = engine.generate(["She"] * 8, temperature=2.0, max_tokens=8, seed=7)
    assert len({tuple(each.token_ids) for each in given}) == 1
    engine.close()
