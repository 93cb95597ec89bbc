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


def test_compute_threads_spin_for_a_short_time_unless_the_user_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    assert environment(2)["GOMP_SPINCOUNT"] == "10000" and "GOMP_SPINCOUNT" not in environment()
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    assert environment(2)["GOMP_SPINCOUNT"] == "7"
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert "GOMP_SPINCOUNT" not in environment(2)
