"""The oldest torch and triton that the device ``cuda`` works with. Reads what is installed without importing it."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

# torch 2.9 is the first with CUDAGraph.raw_cuda_graph_exec, which lets C++ launch a captured graph. It comes with
# triton 3.5; triton.knobs, which the kernels read, exists since 3.4.
TORCH_MIN = (2, 9)
TRITON_MIN = (3, 5)


def too_old(torch: Path, triton: Path) -> str:
    """Which of these two packages is too old for the device, and what to do; "" if neither is.

    A version that cannot be read, of a build from source for example, is not refused.
    """
    for name, source, oldest, need in (
        ("torch", torch / "version.py", TORCH_MIN, "CUDA graphs"),
        ("triton", triton / "__init__.py", TRITON_MIN, "the kernels"),
    ):
        installed = assigned(source, "__version__") or ""
        version = re.match(r"(\d+)\.(\d+)", installed)
        if version and (int(version[1]), int(version[2])) < oldest:
            needed = ".".join(map(str, oldest))
            advice = f"pip install '{name}>={needed}'"
            return f"{name} {installed} is installed and {need} need {name} {needed} or later: {advice}"
    return ""


def package_path(name: str) -> Path | None:
    """The folder of an installed package; None: there is none."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def assigned(source: Path, name: str) -> str | None:
    """The string that a Python file assigns to ``name`` at its top level; None: there is no such string."""
    try:
        tree = ast.parse(source.read_text())
    except (OSError, SyntaxError):
        return None
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            targets: list[ast.expr] = [node.target]
            value = node.value
        elif isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            constant = value.value if isinstance(value, ast.Constant) else None
            return constant if isinstance(constant, str) else None
    return None
