"""What child processes are given."""

from __future__ import annotations

import os

import pytest

from fastqps.supervisor.workers.child import environment


def test_children_get_no_token_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = ("HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN")
    for name in (*tokens, "HF_HOME"):
        monkeypatch.setenv(name, "x")
    found = environment(2)
    assert not found.keys() & set(tokens)
    assert found["HF_HOME"] == "x" and found["OMP_NUM_THREADS"] == "2" and set(os.environ) - found.keys() == set(tokens)
