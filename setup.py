"""Builds fastqps._core, fastqps._front and loadgen._native. Everything else is in pyproject.toml.

Environment: FASTQPS_NGHTTP2=DIR  a newer nghttp2 (DIR/include, DIR/lib, static or shared) instead of the system's
             FASTQPS_PYTHON_ONLY=1  nothing compiled
             FASTQPS_SAN=address|thread|undefined  a sanitizer build
"""

import os
import re
import runpy
import shutil
from glob import glob
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension, build_ext
from setuptools import setup

ParallelCompile("FASTQPS_BUILD_JOBS", default=0, needs_recompile=lambda object_file, source: False).install()


class BuildOnce(build_ext):
    """Two extensions hold csrc/core and csrc/text, with the same flags: an object that is there is of this build."""

    def build_extensions(self) -> None:
        shutil.rmtree(self.build_temp, ignore_errors=True)
        super().build_extensions()


san = os.environ.get("FASTQPS_SAN")
nghttp2 = os.environ.get("FASTQPS_NGHTTP2")
flags = ["-O3", "-g1", "-fno-plt", "-fvisibility=hidden", "-Wall", "-Wextra"]
link: list[str] = []
if san:
    flags += [f"-fsanitize={san}", "-fno-omit-frame-pointer"]
    link += [f"-fsanitize={san}"]


def sources(*folders: str) -> list[str]:
    return sorted(path for folder in folders for path in glob(f"csrc/{folder}/*.cpp"))


def identity(name: str) -> str:
    """A source file with what extension `name` is built for and from; fastqps/_native.py compares it at import."""
    version = re.search(r'__version__ = "(.+)"', Path("fastqps/__init__.py").read_text())
    assert version
    built = {"kBuiltVersion": version[1], "kBuiltSources": runpy.run_path("fastqps/_native.py")["checksum"](name)}
    text = '#include "bind/identity.h"\n\nnamespace fastqps::bind {\n'
    text += "".join(f'const char* const {key} = "{value}";\n' for key, value in built.items()) + "}\n"
    return written(f"build/identity/{name}.cpp", text)


def written(name: str, text: str) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text() != text:  # an unchanged file must not cause a build
        path.write_text(text)
    return name


def extension(name: str, *parts: str, **options: list[str]) -> Pybind11Extension:
    found = [path for part in parts for path in (sources(part) if not part.endswith(".cpp") else [f"csrc/{part}"])]
    found.sort(key=lambda path: "/bind/" not in path)  # those that take longest begin first
    return Pybind11Extension(
        f"fastqps.{name}",
        [*found, identity(name)],
        cxx_std=20,
        include_dirs=["csrc", *options.get("include_dirs", [])],
        library_dirs=options.get("library_dirs", []),
        libraries=options.get("libraries", []),
        depends=glob("csrc/**/*.h", recursive=True),
        extra_compile_args=flags,
        extra_link_args=link,
    )


def load_generator() -> Pybind11Extension:
    built = runpy.run_path("loadgen/built.py")
    word = "const char* const kBuiltSources"
    text = f'namespace loadgen {{\nextern {word};\n{word} = "{built["checksum"](Path())}";\n}}\n'
    found = sorted(path for part in built["PARTS"] for path in glob(f"loadgen/csrc/{part}/*.cpp"))
    return Pybind11Extension(
        "loadgen._native",
        [*(os.path.normpath(path) for path in found), written("build/identity/loadgen.cpp", text)],
        cxx_std=20,
        include_dirs=["loadgen/csrc", *([f"{nghttp2}/include"] if nghttp2 else [])],
        library_dirs=[f"{nghttp2}/lib"] if nghttp2 else [],
        libraries=["nghttp2", "ssl", "crypto"],
        depends=glob("loadgen/csrc/**/*.h", recursive=True),
        extra_compile_args=flags,
        extra_link_args=link,
    )


# tools/setup.sh builds in place itself: an editable install would compile everything a first time and throw it away.
python_only = os.environ.get("FASTQPS_PYTHON_ONLY") == "1"
setup(
    cmdclass={"build_ext": BuildOnce},
    ext_modules=[]
    if python_only
    else [
        extension(
            "_core",
            "core",
            "text",
            "step",
            "bind/core.cpp",
            "bind/models.cpp",
            "bind/load.cpp",
            "bind/step.cpp",
            "bind/decode.cpp",
            "bind/sim.cpp",
            "bind/cuda.cpp",
            "bind/cpu.cpp",
            "bind/text.cpp",
            "bind/trace.cpp",
        ),
        extension(
            "_front",
            "core",
            "text",
            "front",
            "bind/front.cpp",
            "bind/wire.cpp",
            include_dirs=[f"{nghttp2}/include"] if nghttp2 else [],
            library_dirs=[f"{nghttp2}/lib"] if nghttp2 else [],
            libraries=["nghttp2", "z", "ssl", "crypto"],
        ),
        load_generator(),
    ],
)
