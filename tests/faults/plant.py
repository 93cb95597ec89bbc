"""Plants the mistakes of faults.toml one by one in a copy of this tree. The test that owns each must fail.

``python tests/faults/plant.py [NAME…]`` plants those of these names, or all. It prints a line for each, and exits with
1 if one was not found.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = tomllib.loads(Path(__file__).with_name("faults.toml").read_text())
COPY = ROOT / "build/faults"
LIMIT_S = 600  # ends a test that hangs; no measure of anything
END_S = 60  # for what it then ends itself


@dataclass(frozen=True)
class Fault:
    """A class of faults: the test that owns it, and the mistake that stands for it."""

    name: str
    what: str  # what a user would see
    owner: str  # "tests/FOLDER/test_FILE.py::test_NAME" or "csrc/tests/FOLDER/test_FILE.cpp::CASE"
    file: str  # the mistake: in this file, `right` becomes `wrong`
    right: str
    wrong: str

    @property
    def test_file(self) -> str:
        return self.owner.partition("::")[0]

    @property
    def case(self) -> str:
        return self.owner.partition("::")[2]

    @property
    def native(self) -> bool:
        return self.test_file.endswith(".cpp")

    @property
    def in_extensions(self) -> bool:
        """Whether its owner is in Python, and sees the mistake through the extensions."""
        return not self.native and Path(self.file).suffix in (".cpp", ".h")

    @property
    def program(self) -> str:
        """The native test program that has the case."""
        folder = "loadgen" if self.test_file.startswith("loadgen/") else Path(self.test_file).parent.name
        return f"test_{folder}"


FAULTS = [Fault(**row) for row in TABLE["fault"]]


def copy_tree() -> None:
    """Make the copy equal to this tree. What is equal keeps its time, so that little is compiled again."""
    if not COPY.is_dir():
        COPY.mkdir(parents=True)
        for built in ("build/native", "build/identity"):
            if (ROOT / built).is_dir():
                shutil.copytree(ROOT / built, COPY / built)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    extensions = [*ROOT.glob("fastqps/*.so"), *ROOT.glob("loadgen/*.so")]
    names = {name for name in listed if name and os.path.lexists(ROOT / name)}
    names |= {path.relative_to(ROOT).as_posix() for path in extensions}
    for path in [path for path in COPY.rglob("*") if "build" not in path.relative_to(COPY).parts[:1]]:
        if (path.is_file() or path.is_symlink()) and path.relative_to(COPY).as_posix() not in names:
            path.unlink()
    for name in names:
        source, target = ROOT / name, COPY / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(os.readlink(source))
        elif not target.is_file() or source.read_bytes() != target.read_bytes():
            fresh = not target.exists()
            (shutil.copy2 if fresh else shutil.copy)(source, target)


@contextlib.contextmanager
def planted(fault: Fault) -> Iterator[None]:
    path = COPY / fault.file
    text = path.read_text()
    path.write_text(text.replace(fault.right, fault.wrong))
    try:
        yield
    finally:
        path.write_text(text)  # with a new time: it has to be compiled again


def execute(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(COPY), "OMP_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=COPY, env=environment, **pipes) as program:
        try:
            found, _ = program.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGINT)  # a test ends its servers, which are no children of this process
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.communicate(timeout=END_S)
            program.kill()
            raise
    return subprocess.CompletedProcess(command, program.returncode, found)


def build(faults: list[Fault]) -> str:
    """Compile what the owners of these faults run. Returns what the compiler said if that fails."""
    commands = []
    if any(fault.in_extensions for fault in faults):
        commands.append([sys.executable, "setup.py", "-q", "build_ext", "--inplace"])
    if programs := sorted({f"build/native/{fault.program}" for fault in faults if fault.native}):
        commands.append(["make", "-s", f"-j{os.cpu_count()}", *programs])
        in_headers = all(fault.file.startswith("csrc/core/") and fault.file.endswith(".h") for fault in faults)
        if in_headers and all(fault.program == "test_core" for fault in faults):
            commands[-1] += ["-o", "build/native/libfastqps.a"]  # a mistake in the core's headers changes no layout
    for command in commands:
        result = execute(command)
        if result.returncode:
            return result.stdout
    return ""


def run_native(fault: Fault) -> str:
    result = execute([f"build/native/{fault.program}", f"{Path(fault.test_file).stem}.{fault.case}"])
    if result.returncode == 0:
        return "passes"
    return "fails" if ": check failed: " in result.stdout else f"ends by {result.returncode}: {result.stdout[-2000:]}"


def run_python(owners: list[str]) -> str:
    report = COPY / "build/junit.xml"
    report.unlink(missing_ok=True)
    result = execute([sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", f"--junitxml={report}", *owners])
    if result.returncode == 0:
        return "passes"
    failures = (
        [found.get("message", "") for found in ElementTree.parse(report).iter("failure")] if report.exists() else []
    )
    asserted = any(message.startswith(("AssertionError", "assert ", "Failed: ")) for message in failures)
    return "fails" if asserted else f"ends by {result.returncode}: {result.stdout[-2000:]}"


def outcome(fault: Fault) -> str:
    """``passes``, ``fails`` by one of the test's own checks, or what else happens."""
    try:
        if refused := build([fault]):
            return f"does not build: {refused[-2000:]}"
        return run_native(fault) if fault.native else run_python([fault.owner])
    except subprocess.TimeoutExpired:
        return f"does not end within {LIMIT_S} s"


def check_owners(faults: list[Fault]) -> str:
    """Run all owners without any mistake. Returns what does not pass; "" if all do."""
    if refused := build(faults):
        return refused
    wrong = [fault.owner for fault in faults if fault.native and run_native(fault) != "passes"]
    owners = sorted({fault.owner for fault in faults if not fault.native})
    said = run_python(owners) if owners else "passes"
    return "\n".join(wrong + [said] * (said != "passes"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults of faults.toml; all if none is named")
    names = parser.parse_args().names or [fault.name for fault in FAULTS]
    unknown = set(names) - {fault.name for fault in FAULTS}
    if unknown:
        parser.error(f"no fault {', '.join(sorted(unknown))} in faults.toml")
    faults = [fault for fault in FAULTS if fault.name in names]
    copy_tree()
    if wrong := check_owners(faults):
        print(f"without any mistake, these owners do not pass:\n{wrong}")
        return 1
    found = 0
    for fault in faults:
        began = time.monotonic()
        with planted(fault):
            said = outcome(fault)
        if fault.in_extensions:
            build([fault])  # for owners whose mistakes are in Python
        found += said == "fails"
        verdict = {"fails": "found", "passes": "NOT FOUND"}.get(said, f"NO PROOF: the owner {said}")
        print(f"{fault.name:<32} {fault.owner:<110} {time.monotonic() - began:4.0f} s  {verdict}", flush=True)
    print(f"{found} of {len(faults)} mistakes were found")
    return 0 if found == len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
