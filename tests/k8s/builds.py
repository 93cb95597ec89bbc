"""What somebody can apply from k8s/, built once for all tests; and how its objects are found."""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

import pytest
from kustomize import build
from paths import ROOT

from fastqps.config import SETTINGS, Config, load

K8S = ROOT / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir())
ALONE = ("load-test", "load-test-tls", "example", "kserve")
NEEDS = {"gateway-tls": ("tls", "gateway")}  # and comes behind them
TOGETHER = tuple(
    tuple(sorted(set(COMPONENTS) - without, key=lambda name: (name in NEEDS, name)))
    for without in ({"hpa", "inference-extension"}, {"keda", "tls", "gateway-tls"})  # KEDA makes an HPA of its own
)
# An edge has an autoscaler of its own, and is in another namespace than the one that gateways route to.
NOT_WITH = {"edge": {"hpa", "keda", "gateway", "gateway-tls"}}
UNFIT = (
    ("inference-extension", "tls"),
    ("tls", "inference-extension"),
    ("gateway", "gateway-tls"),
    ("gateway", "gateway-tls", "tls"),
)
Object = dict[str, Any]


def overlay(name: str, *components: str) -> list[Object]:
    return build(K8S / "overlays" / name, tuple(f"../../components/{component}" for component in components))


def fitting(name: str, components: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the components that an overlay can have."""
    return tuple(component for component in components if component not in NOT_WITH.get(name, ()))


def everything() -> list[tuple[str, list[Object]]]:
    """All that somebody can apply: each overlay bare, with each component, and with all that go together."""
    choices = [(), *((*NEEDS.get(name, ()), name) for name in COMPONENTS), *TOGETHER]
    wanted = dict.fromkeys((name, fitting(name, chosen)) for name, chosen in itertools.product(OVERLAYS, choices))
    found = [("+".join((name, *chosen)), overlay(name, *chosen)) for name, chosen in wanted]
    return [*found, *((name, build(K8S / name)) for name in ALONE)]


BUILT = everything()
by_build = pytest.mark.parametrize("objects", [found for _, found in BUILT], ids=[name for name, _ in BUILT])


def one(objects: list[Object], kind: str) -> Object:
    (found,) = (thing for thing in objects if thing["kind"] == kind)
    return found


def every(objects: list[Object], kind: str) -> list[Object]:
    return [thing for thing in objects if thing["kind"] == kind]


def templates(objects: list[Object]) -> list[Object]:
    return [thing["spec"]["template"] for thing in objects if thing["kind"] in ("Deployment", "Job")]


def cores(objects: list[Object]) -> int:
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return int(container["resources"]["limits"]["cpu"])


def settings(objects: list[Object]) -> Config:
    """What the server makes of its file and its environment, by its own code."""
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "settings")
    (file,) = (thing for thing in objects if thing["metadata"]["name"] == volume["configMap"]["name"])
    assert container["args"] == ["serve", "--config=/etc/fastqps/fastqps.toml"]
    environment = {variable["name"]: variable["value"] for variable in container.get("env", [])}
    own = {name for name in environment if name.startswith("FASTQPS_")}
    assert own <= {setting.variable for setting in SETTINGS}
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as given:
        given.write(file["data"]["fastqps.toml"])
        given.flush()
        return load({}, environment, given.name).config
