"""Files of checkpoints, caches and credentials are opened and read by ``fastqps/files`` alone: it never waits for one,
knows how long one may be, and takes no number that nothing can compute with."""

from __future__ import annotations

import ast
import re

from paths import ROOT

# Packages that read what others have written, in a process of a server, and the bench.
PACKAGES = (
    "architectures",
    "bench",
    "config",
    "devices",
    "dispatcher",
    "engine",
    "frontdoor",
    "models",
    "ops",
    "process",
)
PACKAGES += ("runners", "supervisor", "telemetry")
OPENERS = {"open", "read_text", "read_bytes", "load_file", "from_file", "safe_open", "fdopen"}
# (module, function) of what is opened otherwise, and why.
OTHERS = {
    ("architectures/tensor_files.py", "load_tensors"): "by a descriptor of fastqps/files",
    ("bench/measure/context.py", "__post_init__"): "no file: a library of the driver",
    ("bench/measure/generator.py", "_results"): "of a child, in a new folder",
    ("bench/measure/generator.py", "run_generator"): "writes a new file, and reads it",
    ("bench/measure/processes.py", "_tree"): "/proc",
    ("bench/measure/processes.py", "_usage"): "/proc",
    ("bench/results/environment.py", "_machine_cpu_s"): "/proc",
    ("bench/search/search.py", "_open"): "no file: the values that a search has not decided on",
    ("dispatcher/stored_steps.py", "_replace"): "writes a new file",
    ("devices/cuda_versions.py", "assigned"): "a module of an installed package",
    ("devices/start_lock.py", "_open"): "a lock in a folder of this user's own",
    ("frontdoor/slow_tokenizers/process.py", "_become_worker"): "/dev/null",
    ("frontdoor/slow_tokenizers/worker.py", "_pages"): "/proc",
    ("frontdoor/rare_routes.py", "add_document_page"): "a file of this package",
    ("models/card_folder.py", "_copy"): "writes a new file",
    ("models/cards.py", "load_card"): "Checkpoint.open",
    ("models/cards.py", "default_input_limit"): "Checkpoint.open",
    ("models/checkpoint.py", "of"): "Checkpoint.open",
    ("process/startup.py", "process_start_s"): "/proc",
    ("supervisor/listener.py", "_alone"): "a directory, to lock it",
    ("supervisor/gpu/mps.py", "_why"): "a log in a folder of this server's own",
    ("supervisor/outcome.py", "_is_there"): "/dev/tty",
    ("supervisor/run_directory.py", "__init__"): "a lock in a folder of this server's own",
    ("supervisor/run_directory.py", "_lives"): "the lock of another server of this user",
    ("supervisor/run_directory.py", "_mps_processes"): "/proc",
    ("supervisor/server/serve.py", "_fill_standard_descriptors"): "/dev/null",
    ("supervisor/server/supervisor.py", "_open"): "no file: opens the server to its clients",
    ("supervisor/child.py", "is_stopped"): "/proc",
    ("telemetry/live/__init__.py", "_page"): "files of this package",
    ("telemetry/metrics/usage.py", "private_bytes"): "/proc",
}
# Modules that parse what is in no file, or in one that this server wrote.
PARSERS = {"tomllib.loads": {"files/documents.py"}}
PARSERS["json.loads"] = {
    *("admin/model_pages.py", "bench/measure/generator.py", "devices/cuda/manifest.py"),
    *("frontdoor/open_inference_http.py", "frontdoor/text_embeddings_http.py"),
    *("files/documents.py", "kernels/journal.py", "models/adapters/patterns.py"),
    *("frontdoor/slow_tokenizers/process.py", "frontdoor/slow_tokenizers/template.py"),
    *("structure/sandbox.py", "structure/sandbox_process.py"),
    *("frontdoor/slow_tokenizers/worker.py", "models/card.py", "models/checkpoint.py", "models/tokenizers/files.py"),
    *("models/chat/child.py", "models/chat/reading.py", "models/chat/spellings.py"),
    *(
        "frontdoor/vllm_tokens.py",
        "models/tokenizers/fixed_tokens.py",
        "models/tokenizers/tokenizer.py",
        "process/children.py",
        "process/credentials.py",
    ),
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


def test_files_are_parsed_in_one_place() -> None:
    found: dict[str, set[str]] = {}
    for path in (ROOT / "fastqps").rglob("*.py"):
        for call in re.findall(r"\b(?:json|tomllib)\.loads?\b", path.read_text()):
            found.setdefault(call, set()).add(path.relative_to(ROOT / "fastqps").as_posix())
    assert found == PARSERS
