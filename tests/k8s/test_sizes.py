"""k8s/: figures that follow from others: cores, patience, pods."""

from __future__ import annotations

import math
import re

import pytest
from builds import COMPONENTS, K8S, OVERLAYS, Object, cores, one, overlay, settings

from fastqps.admin.server import END_MAX_S as ADMIN_END_MAX_S
from fastqps.config import Config
from fastqps.supervisor import log
from fastqps.supervisor.gpu import holder, mps
from fastqps.supervisor.placement import pinned
from fastqps.supervisor.server import supervisor

pytestmark = pytest.mark.compute

README = (K8S / "README.md").read_text()
SPARE_CORES = 2  # for the supervisor, and for the next generation of a model


def longest_end_s(config: Config) -> float:
    """From SIGTERM to the last process's end, with everything hanging that can."""
    end_s = (config.lame_duck_ns + config.drain_timeout_ns) / 1e9
    end_s += supervisor.ACCEPT_S + supervisor.DRAIN_SLACK_S
    end_s += 2 * supervisor.REAP_MAX_S + supervisor.TRACING_GRACE_S  # children, and then a restart that had begun
    end_s += ADMIN_END_MAX_S + 2 * log.FLUSH_S
    if config.share_weights:
        end_s += holder.END_MAX_S + holder.REAP_MAX_S
    if config.mps == "on":
        end_s += mps.ASK_MAX_S + 2 * mps.QUIT_MAX_S
    return end_s


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_kubelet_waits_for_the_longest_end(name: str) -> None:
    """Else it ends the server: the exit code is 137 for every reason, and the log's last lines are lost."""
    objects = overlay(name)
    grace_s = one(objects, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert settings(objects).lame_duck_ns, "the kubelet sends SIGTERM while clients still come"
    assert 0 <= grace_s - longest_end_s(settings(objects)) < 10
    told = {"cpu": 20, "edge": 20, "gpu": 20, "gpu-mps": 40}[name]  # by docs/operations.md and README.md
    config = settings(objects)
    assert grace_s == (config.lame_duck_ns + config.drain_timeout_ns) / 1e9 + told


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_has_the_cores_that_its_processes_use(name: str) -> None:
    objects = overlay(name)
    config, mine = settings(objects), tuple(range(cores(objects)))
    assert config.frontdoors and config.dispatchers
    if config.device == "cpu":  # all compute on all cores
        assert len(mine) % config.dispatchers == 0 and config.frontdoors + config.dispatchers < len(mine)
        return
    placement = pinned(mine, config.frontdoors, [None] * config.dispatchers * len(config.model))
    used = {cpu for own in (*placement.doors, *placement.dispatchers) for cpu in own}
    assert len(used) == config.frontdoors + config.dispatchers * len(config.model), "each has its own"
    assert len(mine) - len(used) == SPARE_CORES, "cores that are paid for and that nobody uses"
    assert f"`{name}`: {config.frontdoors} front doors, {config.dispatchers} dispatcher" in README


def resolved(share: str | int, pods: int, *, up: bool) -> int:
    """As Kubernetes makes a number of pods of a share."""
    if isinstance(share, int):
        return share
    exact = int(share.removesuffix("%")) * pods
    return -(-exact // 100) if up else exact // 100


def at_a_time(objects: list[Object], pods: int) -> tuple[int, int]:
    """(pods that a rollout changes at a time, pods that drained nodes take at a time)."""
    rolling = one(objects, "Deployment")["spec"]["strategy"]["rollingUpdate"]
    surge = resolved(rolling["maxSurge"], pods, up=True)
    missing = resolved(rolling["maxUnavailable"], pods, up=False)
    drained = resolved(one(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"], pods, up=True)
    return surge + missing or 1, drained  # where both come to nothing, the controller makes the latter one


@pytest.mark.parametrize("components", [(), ("no-spare-node",)], ids=["surge", "no-spare-node"])
@pytest.mark.parametrize("pods", [1, 2, 3, 10, 11, 40, 134, 268])
def test_large_deployments_change_in_few_turns_and_small_ones_one_pod_at_a_time(
    pods: int, components: tuple[str, ...]
) -> None:
    objects = overlay("gpu", *components)
    for step in at_a_time(objects, pods):
        assert (step == 1) if pods <= 10 else (pods / 20 < step < pods / 10 + 1)


def test_the_table_of_pods_is_what_its_formula_gives() -> None:
    rows = re.findall(r"^\| .* \| .*?([\d,]+)/s[^|]*\| (\d+)[^|]*\| (\d+) \|$", README, re.M)
    assert len(rows) == 5
    for told, pods, with_spare in rows:
        exact = 200_000 / (float(told.replace(",", "")) * Config().target_saturation)
        assert (int(pods), int(with_spare)) == (math.ceil(exact), math.ceil(exact * 1.5)), told
    found = re.search(r"Their default is (\d+), which is ([\d,]+)/s with pods of 4 cores", README)
    assert found
    most = one(overlay("cpu", "hpa"), "HorizontalPodAutoscaler")["spec"]["maxReplicas"]
    assert int(found[1]) == most
    assert round(most * 2_300 * Config().target_saturation, -3) == int(found[2].replace(",", ""))


def test_each_component_is_told_of() -> None:
    for name in COMPONENTS:
        assert f"`{name}`" in README, name
