"""The stubs of the extensions say what the extensions have: every name, every parameter, and nothing else."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fastqps._native import ROOT

pytestmark = pytest.mark.compute

STUBS = {
    "fastqps._core": ROOT / "fastqps/_core.pyi",
    "fastqps._front": ROOT / "fastqps/_front.pyi",
    "loadgen._native": ROOT / "loadgen/_native.pyi",
}
# Of a parameter in a signature that pybind11 writes in front of a docstring: its name, and whether it has a default.
PARAMETER = re.compile(r"(\*\*\w+|\*|\w+)(?::[^=]*)?(=)?")

Parameters = list[tuple[str, bool]]  # (name, whether it may be left out); "*": those behind it have names only


def split_top_level(text: str) -> list[str]:
    """The parts between the commas that no bracket encloses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def parameters_of(function: Any) -> Parameters:
    """Those of a function of an extension, without ``self``."""
    first = (function.__doc__ or "").split("\n", 1)[0]
    inside = first.replace("->", "").partition("(")[2].rpartition(")")[0]
    found = []
    for part in split_top_level(inside):
        name, default = PARAMETER.match(part).groups()  # type: ignore[union-attr]
        found.append((name, default is not None))
    return [(name, optional) for name, optional in found if name != "self" and not re.fullmatch(r"arg0", name)]


def parameters_in(stub: ast.FunctionDef) -> Parameters:
    arguments = stub.args
    optional = [False] * (len(arguments.args) - len(arguments.defaults)) + [True] * len(arguments.defaults)
    found = [(argument.arg, may) for argument, may in zip(arguments.args, optional, strict=True)]
    if arguments.kwonlyargs:
        found.append(("*", False))
        defaults = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        found += [(argument.arg, default is not None) for argument, default in defaults]
    if arguments.kwarg:
        found.append(("**kwargs", False))  # as pybind11 names it
    return [(name, may) for name, may in found if name != "self"]


def own_names(thing: Any) -> set[str]:
    kept = {"__init__"} if isinstance(thing, type) else set()
    return {name for name in vars(thing) if not name.startswith("_") or name in kept}


def differences(module: ModuleType, stub: str) -> list[str]:
    """What a stub's text and the module disagree about, a line each."""
    return list(_differences(module, ast.parse(stub).body, module.__name__))


def _differences(thing: Any, body: list[ast.stmt], where: str) -> list[str]:
    found: list[str] = []
    stubbed: dict[str, ast.stmt] = {}
    for node in body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                stubbed[node.name] = node
            case ast.AnnAssign(target=ast.Name(id=name)):
                stubbed[name] = node
    types_only = {name for name, node in stubbed.items() if is_type_only(node)}
    has = own_names(thing)
    if isinstance(thing, type) and "__init__" in has and "__init__" not in stubbed and has_no_constructor(thing):
        has.discard("__init__")
    found += [f"{where}.{name} is not in the stub" for name in sorted(has - stubbed.keys())]
    found += [f"{where}.{name} is only in the stub" for name in sorted(stubbed.keys() - has - types_only)]
    for name in sorted((has & stubbed.keys()) - types_only):
        node, real = stubbed[name], vars(thing)[name]
        match node:
            case ast.ClassDef():
                found += _differences(real, node.body, f"{where}.{name}")
            case _ if isinstance(thing, type) and is_read_only(node) != is_property(real):
                found.append(f"{where}.{name} can only be read in one of them")
            case ast.FunctionDef():
                function = real.__func__ if isinstance(real, staticmethod) else real
                if (in_module := parameters_of(function)) != (in_stub := parameters_in(node)):
                    found.append(f"{where}.{name} takes {in_module}, the stub says {in_stub}")
    return found


def is_read_only(node: ast.stmt) -> bool:
    """Whether the stub says that an attribute cannot be assigned: ``name: Final[TYPE]``."""
    match node:
        case ast.AnnAssign(annotation=ast.Subscript(value=ast.Name(id="Final"))):
            return True
    return False


def is_property(real: Any) -> bool:
    return isinstance(real, property) and real.fset is None


def is_type_only(node: ast.stmt) -> bool:
    """A class that describes a dict, or an exception: made by Python's own means, so it has no signatures."""
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return any(isinstance(base, ast.Name) and base.id in ("TypedDict", "ValueError", "RuntimeError") for base in bases)


def has_no_constructor(thing: type) -> bool:
    try:
        thing()
    except TypeError as error:
        return "No constructor defined" in str(error)
    return False


@pytest.mark.parametrize("name", STUBS)
def test_the_stub_and_the_extension_agree(name: str) -> None:
    assert differences(importlib.import_module(name), STUBS[name].read_text()) == []


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("fastqps._core", r"^def now_ns\(\) -> int: \.\.\.\n", ""),
        ("fastqps._core", r"^GENERATIONS: int\n", ""),
        ("fastqps._core", r"^GENERATIONS: int\n", "GENERATIONS: int\nGENERATION_NAMES: int\n"),
        ("fastqps._core", r"    def busy_ns\(self, device: int\)", "    def busy_ns(self, gpu: int)"),
        ("fastqps._core", r"def create_segment\(sizes: Sizes\)", "def create_segment(sizes: Sizes, name: str)"),
        ("fastqps._core", r"        devices: int = 1,\n", "        devices: int,\n"),
        ("fastqps._core", r"    flips_seen: Final\[int\]", "    flips_seen: int"),
        ("fastqps._core", r"    flips_seen: Final\[int\]\n", ""),
        ("fastqps._core", r"    def make_stream\(self\) -> int: \.\.\.", "    make_stream: Final[int]"),
        ("fastqps._front", r"        \*,\n        tokenizer", "        tokenizer"),
        ("fastqps._front", r"external: bool,\n        (detokenizer: str),", r"\1,\n        external: bool,"),
        ("fastqps._front", r"    def stop\(self\) -> None: \.\.\.\n", ""),
    ],
)  # fmt: skip
def test_a_wrong_stub_is_found(name: str, wrong: str, right: str) -> None:
    stub, changes = re.subn(wrong, right, STUBS[name].read_text(), count=1, flags=re.MULTILINE)
    assert changes == 1
    assert len(differences(importlib.import_module(name), stub)) == 1


def test_every_extension_has_its_stub() -> None:
    folders = (ROOT / "fastqps", ROOT / "loadgen")
    built: set[Path] = {path for folder in folders for path in folder.glob("_*.so")}
    assert {path.with_name(path.name.partition(".")[0] + ".pyi") for path in built} == set(STUBS.values())
