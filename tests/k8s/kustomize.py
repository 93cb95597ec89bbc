"""Builds the kustomizations under k8s/ in Python: as much of kustomize as they use, and an error for the rest.

So the manifests are checked on machines that have no kubectl. Where there is one, a test holds both to the same result.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
_KNOWN = {
    "apiVersion", "kind", "namespace", "resources", "components", "labels", "images", "configMapGenerator", "patches",
}  # fmt: skip
_MERGE_KEYS = {"containers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath"}
_CLUSTER_WIDE = {"Namespace", "PriorityClass"}


class Unfit(Exception):
    """A component was put to others with which it does not work: an operation `test` says so, as it does to kubectl."""


def build(folder: Path, extra_components: tuple[str, ...] = ()) -> list[Object]:
    """All objects of a kustomization, with ``extra_components`` (paths from ``folder``) as if it listed them."""
    objects = _accumulate(folder, extra_components)
    _name_references(objects)
    return [{key: value for key, value in thing.items() if key != "_generated"} for thing in objects]


def _accumulate(folder: Path, extra_components: tuple[str, ...] = ()) -> list[Object]:
    (plan,) = _documents(folder / "kustomization.yaml")
    assert set(plan) <= _KNOWN, f"{folder}: this builder does not know {set(plan) - _KNOWN}"
    assert plan["kind"] == "Kustomization", folder
    objects: list[Object] = []
    for entry in plan.get("resources", []):
        path = folder / entry
        objects += _accumulate(path) if path.is_dir() else _documents(path)
    for entry in [*plan.get("components", []), *extra_components]:
        _apply_component(folder / entry, objects)
    _apply(plan, folder, objects)
    return objects


def _apply_component(folder: Path, objects: list[Object]) -> None:
    (plan,) = _documents(folder / "kustomization.yaml")
    assert plan["kind"] == "Component" and set(plan) <= _KNOWN, folder
    for entry in plan.get("resources", []):
        objects += _documents(folder / entry)
    _apply(plan, folder, objects)


def _apply(plan: Object, folder: Path, objects: list[Object]) -> None:
    for generator in plan.get("configMapGenerator", []):
        _generate(generator, folder, objects)
    for patch in plan.get("patches", []):
        text = patch["patch"] if "patch" in patch else (folder / patch["path"]).read_text()
        _patch(yaml.safe_load(text), patch.get("target"), objects)
    for thing in objects:
        if "namespace" in plan and thing["kind"] not in _CLUSTER_WIDE:
            thing["metadata"]["namespace"] = plan["namespace"]
        for rule in plan.get("labels", []):
            assert set(rule) == {"pairs"}, f"{folder}: labels of objects alone"
            thing["metadata"].setdefault("labels", {}).update(rule["pairs"])
        for image in plan.get("images", []):
            for container in _containers(thing):
                name = container["image"].rpartition(":")[0] or container["image"]
                if name == image["name"]:
                    container["image"] = f"{image.get('newName', name)}:{image['newTag']}"


def _documents(path: Path) -> list[Object]:
    return copy.deepcopy(_parsed(path))


@functools.cache  # the same few files make dozens of builds
def _parsed(path: Path) -> list[Object]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(path.read_text(), Loader=loader) if document]


def _containers(thing: Object) -> list[Object]:
    template = thing.get("spec", {}).get("template", {}) if thing["kind"] in ("Deployment", "Job") else {}
    found: list[Object] = template.get("spec", {}).get("containers", [])
    return found


# ---- generated ConfigMaps


def _generate(generator: Object, folder: Path, objects: list[Object]) -> None:
    assert set(generator) <= {"name", "files", "behavior", "options"}, f"{folder}: {generator}"
    name, options = generator["name"], generator.get("options", {})
    thing: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {file: (folder / file).read_text() for file in generator["files"]},
        "_generated": not options.get("disableNameSuffixHash", False),
    }
    if options.get("labels"):
        thing["metadata"]["labels"] = dict(options["labels"])
    known = [found for found in objects if (found["kind"], found["metadata"]["name"]) == ("ConfigMap", name)]
    if generator.get("behavior") == "replace":
        assert known, f"{folder}: no ConfigMap {name} to replace"
        known[0]["data"] = thing["data"]
    else:
        assert not known, f"{folder}: a second ConfigMap {name}"
        objects.append(thing)


def _name_references(objects: list[Object]) -> None:
    """Gives generated ConfigMaps their hash, and whoever mounts them the new name: within a namespace."""
    renamed = {}
    for thing in objects:
        if thing.get("_generated"):
            old = thing["metadata"]["name"]
            thing["metadata"]["name"] = f"{old}-{_hash(thing['data'])}"
            renamed[thing["metadata"].get("namespace"), old] = thing["metadata"]["name"]
    for thing in objects:
        if thing["kind"] == "Deployment":
            for volume in thing["spec"]["template"]["spec"].get("volumes", []):
                source, space = volume.get("configMap", {}), thing["metadata"].get("namespace")
                if (space, source.get("name")) in renamed:
                    source["name"] = renamed[space, source["name"]]


def _hash(data: dict[str, str]) -> str:
    # Not the name: kustomize hashes what a ConfigMap holds.
    text = json.dumps(
        {"data": data, "kind": "ConfigMap", "name": ""}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    for char in "<>&":  # as Go writes JSON
        text = text.replace(char, f"\\u{ord(char):04x}")
    digits = hashlib.sha256(text.encode()).hexdigest()[:10]
    return digits.translate(str.maketrans("013ae", "ghkmt"))


# ---- patches


def _patch(patch: Any, target: Object | None, objects: list[Object]) -> None:
    if isinstance(patch, list):
        assert target and set(target) == {"kind"}, "a list of operations names the kind that it is for"
        for thing in objects:  # none of that kind is no error, as for kustomize
            if thing["kind"] == target["kind"]:
                _operate(patch, thing)
        return
    wanted = (patch["kind"], patch["metadata"]["name"])
    chosen = [thing for thing in objects if (thing["kind"], thing["metadata"]["name"]) == wanted]
    assert chosen, f"a patch for nothing: {patch}"
    for thing in chosen:
        _merge(thing, patch)


def _operate(operations: list[Object], thing: Object) -> None:
    for operation in operations:
        *way, last = operation["path"].strip("/").split("/")
        place: Any = thing
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        match operation["op"], place:
            case "add", [*_] if last == "-":
                place.append(operation["value"])
            case "replace", [*_]:
                place[int(last)] = operation["value"]
            case "replace", dict():
                assert last in place, f"nothing to replace: {operation}"
                place[last] = operation["value"]
            case "test", dict():
                if place.get(last) != operation["value"]:
                    raise Unfit(f"{thing['kind']} {thing['metadata']['name']}: {last} is not {operation['value']!r}")
            case _:
                raise AssertionError(f"this builder does not know {operation}")


def _merge(into: Object, patch: Object) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif key in _MERGE_KEYS and isinstance(into.get(key), list):
            _merge_list(into[key], value, _MERGE_KEYS[key])
        else:
            into[key] = copy.deepcopy(value)


def _merge_list(into: list[Object], patches: list[Object], key: str) -> None:
    added = []
    for patch in patches:
        known = [item for item in into if item[key] == patch[key]]
        if known:
            _merge(known[0], patch)
        else:
            added.append(copy.deepcopy(patch))
    into[:0] = added  # kustomize puts what is new in front
