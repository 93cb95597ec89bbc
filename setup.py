"""Builds fastqps._core, fastqps._front and loadgen._native by csrc/build.mk. Everything else is in pyproject.toml.

Environment: FASTQPS_NGHTTP2=DIR  a newer nghttp2 (DIR/include, DIR/lib, static or shared) instead of the system's
             FASTQPS_PYTHON_ONLY=1  nothing compiled
             FASTQPS_SAN=address|thread|undefined  a sanitized build
             FASTQPS_BUILD_JOBS=N  compilers at once; as many as there are CPUs if it is not set
"""

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pybind11
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

EXTENSIONS = ("fastqps._core", "fastqps._front", "loadgen._native")


class MakeExtensions(build_ext):
    """One call of make for all extensions, which compiles what has changed."""

    def run(self) -> None:
        super().run()
        if not os.environ.get("FASTQPS_SAN"):  # such an extension cannot be imported
            self.write_stubs()

    def write_stubs(self) -> None:
        """Beside the extensions: in the source tree, or where a wheel is packed from."""
        if importlib.util.find_spec("pybind11_stubgen"):  # a build for this machine alone may lack it
            place = str(Path("." if self.inplace else self.build_lib).resolve())
            path = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
            environment = {**os.environ, "PYTHONPATH": path}
            subprocess.run([sys.executable, str(Path("tools/stubs.py"))], env=environment, check=True)

    def build_extensions(self) -> None:
        san, tag = os.environ.get("FASTQPS_SAN", ""), sys.implementation.cache_tag
        native = f"build/native-{san}" if san else "build/native"
        write_identities()
        includes = (sysconfig.get_path("include"), sysconfig.get_path("platinclude"), pybind11.get_include())
        jobs = os.environ.get("FASTQPS_BUILD_JOBS") or len(os.sched_getaffinity(0))
        command = ["make", "-s", "-f", "csrc/build.mk", f"-j{jobs}", "extensions", f"SAN={san}", f"PYTHON_TAG={tag}"]
        command.append("PYTHON_FLAGS=" + " ".join(dict.fromkeys(f"-I{path}" for path in includes)))
        command.append(f"NGHTTP2={os.environ.get('FASTQPS_NGHTTP2', '')}")
        # The make that may have called this one has a job server that setup.py cannot pass on.
        environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS")}
        subprocess.run(command, check=True, env=environment)
        for name in EXTENSIONS:
            place = Path(self.get_ext_fullpath(name))
            place.parent.mkdir(parents=True, exist_ok=True)
            copied = place.with_suffix(".new")  # a process that has the old one loaded keeps it
            shutil.copyfile(f"{native}/{tag}/{name}.so", copied)
            copied.replace(place)


def write_identities() -> None:
    """A source file for each extension that says what it is built for and from; it is compared at import."""
    version = re.search(r'__version__ = "(.+)"', Path("fastqps/version.py").read_text())
    assert version
    checksum = runpy.run_path("fastqps/_native.py")["checksum"]
    for name in ("_core", "_front"):
        built = {"kBuiltVersion": version[1], "kBuiltSources": checksum(name)}
        write_identity(name, "fastqps::bind", built)
    checksum = runpy.run_path("loadgen/built.py")["checksum"]
    write_identity("loadgen", "loadgen", {"kBuiltSources": checksum(Path())})


def write_identity(name: str, namespace: str, built: dict[str, str]) -> None:
    text = "".join(f'extern const char* const {key};\nconst char* const {key} = "{built[key]}";\n' for key in built)
    path = Path(f"build/identity/{name}.cpp")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"namespace {namespace} {{\n{text}}}\n"
    if not path.is_file() or path.read_text() != text:  # an unchanged file must not cause a build
        path.write_text(text)


# tools/setup.sh builds in place itself: an editable install would compile everything a first time and throw it away.
python_only = os.environ.get("FASTQPS_PYTHON_ONLY") == "1"
setup(
    cmdclass={"build_ext": MakeExtensions},
    ext_modules=[] if python_only else [Extension(name, []) for name in EXTENSIONS],
)
