"""KServe's published schemas, cut down to the fields that k8s/kserve uses, as tests/k8s/kserve_schemas.json has them.

Each object is closed, so a field that is misspelled or of another type is an error. After a change in k8s/kserve, with
KServe's definitions (config/crd/full/serving.kserve.io_*.yaml of its repository) in a folder:

    python tests/k8s/kserve_schemas.py FOLDER VERSION
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

KSERVE = Path(__file__).resolve().parents[2] / "k8s/kserve"
STORED = Path(__file__).with_suffix(".json")
METADATA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}
Schema = dict[str, Any]


def load() -> dict[str, Schema]:
    """By kind."""
    schemas: dict[str, Schema] = json.loads(STORED.read_text())["schemas"]
    return schemas


def cut(schema: Schema, used: list[Any]) -> Schema:
    """`schema` with those properties alone that one of the values in `used` has, all the way down."""
    kept = {key: value for key, value in schema.items() if key != "description" and not key.startswith("x-kubernetes")}
    if properties := schema.get("properties"):
        names = {name for value in used for name in value}
        assert names <= properties.keys(), f"KServe knows no {names - properties.keys()}"
        kept["properties"] = {
            name: cut(properties[name], [value[name] for value in used if name in value])
            for name in properties
            if name in names
        }
        kept["additionalProperties"] = False
    if "items" in schema:
        kept["items"] = cut(schema["items"], [item for value in used for item in value])
    return kept


def main(folder: Path, version: str) -> None:
    published = {}
    for definition in (yaml.safe_load(path.read_text()) for path in folder.glob("*.yaml")):
        spec = definition["spec"]
        for entry in spec["versions"]:
            name = f"{spec['group']}/{entry['name']}", spec["names"]["kind"]
            published[name] = entry["schema"]["openAPIV3Schema"]
    schemas = {}
    for path in sorted(KSERVE.glob("*service*.yaml")) + sorted(KSERVE.glob("*runtime.yaml")):
        thing = yaml.safe_load(path.read_text())
        schema = published[thing["apiVersion"], thing["kind"]]
        schema["properties"] |= {"metadata": METADATA, "apiVersion": {"enum": [thing["apiVersion"]]}}
        schemas[thing["kind"]] = cut(schema, [thing]) | {"required": [*thing]}
    source = f"Cut from the definitions of KServe {version}, https://github.com/kserve/kserve, Apache-2.0."
    STORED.write_text(json.dumps({"source": source, "schemas": schemas}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
