"""Files of checkpoints, caches and credentials are opened by ``fastqps/files`` alone: it never waits for one, and knows
how long one may be."""

from __future__ import annotations

import ast

from paths import ROOT

# Packages that read what others have written, in a process of a server.
PACKAGES = ("architectures", "config", "devices", "dispatcher", "engine", "frontdoor", "models", "ops", "process")
PACKAGES += ("runners",)
OPENERS = {"open", "read_text", "read_bytes", "load_file", "from_file", "safe_open", "fdopen"}
# (module, function) of what is opened otherwise, and why.
OTHERS = {
    ("architectures/tensor_files.py", "load_tensors"): "by a descriptor of fastqps/files",
    ("devices/choice_file.py", "_write"): "writes a new file",
    ("devices/cuda_versions.py", "assigned"): "a module of an installed package",
    ("devices/start_lock.py", "_open"): "a lock in a folder of this user's own",
    ("dispatcher/slow_launch.py", "launch_slowly"): "a file of tests",
    ("frontdoor/slow_tokenizers/process.py", "_become_worker"): "/dev/null",
    ("frontdoor/slow_tokenizers/worker.py", "_pages"): "/proc",
    ("models/card_folder.py", "_copy"): "writes a new file",
    ("models/cards.py", "load_card"): "Checkpoint.open",
    ("models/cards.py", "default_input_limit"): "Checkpoint.open",
    ("models/checkpoint.py", "of"): "Checkpoint.open",
    ("process/startup.py", "process_start_s"): "/proc",
}


def opened() -> set[tuple[str, str]]:
    """(module, function) of each call that opens a file by its name."""
    found = set()
    for package in PACKAGES:
        for path in (ROOT / "fastqps" / package).rglob("*.py"):
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef) and any(map(opens, ast.walk(function))):
                    found.add((path.relative_to(ROOT / "fastqps").as_posix(), function.name))
    return found


def opens(node: ast.AST) -> bool:
    """Whether the node is a call of an opener."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in OPENERS


def test_files_are_opened_in_one_place() -> None:
    assert opened() == OTHERS.keys()
