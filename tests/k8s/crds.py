"""Schemas of the custom resources that k8s/ uses, which kubernetes-validate does not know: crds.json.

They are cut from the projects' own definitions, and each object is closed: a field that k8s/ does not use, or that is
misspelled, is an error, as is one of another type. After a change in k8s/, with the definitions in folders whose names
are those of the projects and their versions (FOLDER/keda-2.20.2/keda.sh_scaledobjects.yaml):

    PYTHONPATH=.:tests/support python tests/k8s/crds.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

STORED = Path(__file__).with_suffix(".json")
LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
METADATA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": LABELS,
        "annotations": LABELS,
    },
    "required": ["name"],
    "additionalProperties": False,
}
Schema = dict[str, Any]
SCHEMAS: dict[str, Schema] = json.loads(STORED.read_text())["schemas"]  # by kind


def cut(schema: Schema, used: list[Any]) -> Schema:
    """`schema` with those properties alone that one of the values in `used` has, all the way down."""
    kept = {key: value for key, value in schema.items() if key != "description" and not key.startswith("x-kubernetes")}
    if properties := schema.get("properties"):
        names = {name for value in used for name in value}
        assert names <= properties.keys(), f"the definition knows no {names - properties.keys()}"
        kept["properties"] = {
            name: cut(properties[name], [value[name] for value in used if name in value])
            for name in properties
            if name in names
        }
        kept["additionalProperties"] = False
    if "items" in schema:
        kept["items"] = cut(schema["items"], [item for value in used for item in value])
    return kept


def main(folder: Path) -> None:
    from builds import BUILT

    schemas: dict[str, Schema] = {}
    for definition in (yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*/*.yaml"))):
        group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
        for entry in definition["spec"]["versions"]:
            version = f"{group}/{entry['name']}"
            used = [it for _, objects in BUILT for it in objects if (it["apiVersion"], it["kind"]) == (version, kind)]
            if used:
                schema = entry["schema"]["openAPIV3Schema"]
                head = {"apiVersion": {"enum": [version]}, "kind": {"enum": [kind]}, "metadata": METADATA}
                schema["properties"] |= head
                schemas[kind] = cut(schema, used) | {"required": [*head, "spec"]}
    projects = ", ".join(sorted(path.name for path in folder.iterdir()))
    source = f"Cut from the definitions of these projects, all Apache-2.0: {projects}."
    STORED.write_text(json.dumps({"source": source, "schemas": schemas}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
