#!/usr/bin/env bash
# Gathers into one folder of some 35 MiB what a GPU machine without a network lacks: the development packages that the
# C++ extensions are built with, and Python packages beside those that machines for models have. Run it on a Debian or
# Ubuntu machine with a network; no root is needed. `make gpu-kit` calls it with KIT, KIT_PYTHON (the GPU machine's
# version of Python) and PYTHON (this machine's, for pip). Exit code: 75 if a download failed, 1 for other errors.
set -euo pipefail
cd "$(dirname "$0")/.."
KIT=${KIT:-build/gpu-kit} KIT_PYTHON=${KIT_PYTHON:-3.12} PYTHON=${PYTHON:-python3}
SIZE_MAX_MIB=48

die() { printf 'gpu-kit: %s\n' "$*" >&2; exit "${code:-1}"; }

# The development packages of packages.apt. Python's own are left out: they must fit the GPU machine's Python.
mapfile -t DEVELOPMENT < <(awk '/^# optional/ { exit } $1 ~ /-dev$/ && $1 !~ /^python/ { print $1 }' packages.apt)
# An imported name, and the packages that it needs. tools/gpu_check.sh adds those to PYTHONPATH that a machine lacks, and
# no others: the packages that torch depends on stay as they are.
PACKAGES=(
    "setproctitle setproctitle"
    "uvloop uvloop"
    "pybind11 pybind11"
    "prometheus_client prometheus-client"
    "pynvml nvidia-ml-py"
    "llguidance llguidance"
    "grpc grpcio"
    "google.protobuf protobuf"
    "pytest pytest pluggy iniconfig packaging"
    "pytest_timeout pytest-timeout"
    "xdist pytest-xdist execnet"
)
TAGS=(manylinux_2_28_x86_64 manylinux_2_27_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64 manylinux_2_5_x86_64
    manylinux1_x86_64 any)

rm -rf "$KIT"
mkdir -p "$KIT"/{usr/include,usr/link,usr/run,python,download/lists,download/runtime}
KIT=$(cd "$KIT" && pwd)
log=$KIT/download/log

# ---- Debian packages: headers in usr/include, shared libraries in usr/run/PACKAGE, and link names in usr/link

# Many containers have no package lists, and old lists name files that are gone. A download that fails is repeated with
# lists of its own, which needs no root and leaves the system's as they are.
apt=(apt-get -q -o APT::Sandbox::User="$(id -un)")
own=(-o Dir::State::lists="$KIT/download/lists" -o Dir::Cache="$KIT/download")
download() { (cd "$1" && "${apt[@]}" download "${@:2}") >>"$log" 2>&1; }
fetch() {
    if ! download "$@"; then
        apt+=("${own[@]}")
        "${apt[@]}" update >>"$log" 2>&1 && download "$@" ||
            { cat "$log" >&2; code=75 die "apt-get could not download ${*:2}; is there a network?"; }
        own=()
    fi
}
for program in apt-get dpkg-deb; do
    command -v "$program" >/dev/null || die "there is no $program here: run this on a Debian or Ubuntu machine"
done

fetch "$KIT/download" "${DEVELOPMENT[@]}"
# A development package depends on the package of its shared libraries in exactly its own version.
RUNTIME=()
for package in "$KIT"/download/*.deb; do
    dpkg-deb -x "$package" "$KIT/download/development"
    mapfile -t -O "${#RUNTIME[@]}" RUNTIME < <(dpkg-deb -f "$package" Depends | tr , '\n' | sed -n 's/^ *\([^ ]*\) (= .*/\1/p')
done
fetch "$KIT/download/runtime" "${RUNTIME[@]}"

cp -r "$KIT/download/development/usr/include/." "$KIT/usr/include/"
multiarch=$KIT/usr/include/x86_64-linux-gnu
if [ -d "$multiarch" ]; then cp -r "$multiarch/." "$KIT/usr/include/" && rm -rf "$multiarch"; fi
# Boost is 180 MiB of headers. Only what the parser of HTTP/1.1 includes is kept, 2 MiB.
mkdir "$KIT/download/boost"
(cd "$KIT/usr/include" && ${CXX:-g++} -std=c++20 -I. -I"$OLDPWD/csrc" -M "$OLDPWD/csrc/transport/http1/request_parser.cpp" |
    grep -o '\./boost/[^ ]*\|boost/[^ ]*' | sort -u | xargs cp --parents -t "$KIT/download/boost") ||
    die "the headers of Boost that csrc/transport/http1 includes could not be found"
rm -rf "$KIT/usr/include/boost" && mv "$KIT/download/boost/boost" "$KIT/usr/include/boost"
for package in "$KIT"/download/runtime/*.deb; do
    folder=$KIT/usr/run/$(dpkg-deb -f "$package" Package)
    mkdir "$folder"
    dpkg-deb -x "$package" "$KIT/download/unpacked"
    find "$KIT/download/unpacked" -regex '.*/x86_64-linux-gnu/lib[^/]*\.so\.[0-9]+' -exec cp -L {} "$folder" \;
    rm -rf "$KIT/download/unpacked"
done
# A linker script instead of a link or a second copy: links do not survive every way of copying. The linker looks for the
# library in LIBRARY_PATH.
for library in "$KIT"/usr/run/*/*; do
    name=${library##*/}
    echo "INPUT($name)" >"$KIT/usr/link/${name%.so.*}.so"
done

# ---- Python packages: python/NAME

tags=()
for tag in "${TAGS[@]}"; do tags+=(--platform "$tag"); done
# shellcheck disable=SC2046
"$PYTHON" -m pip install -q --disable-pip-version-check --no-deps --no-compile --only-binary=:all: --implementation cp \
    --python-version "$KIT_PYTHON" "${tags[@]}" --target "$KIT/download/python" \
    $(printf '%s\n' "${PACKAGES[@]}" | cut -d ' ' -f 2-) >"$log" 2>&1 ||
    { cat "$log" >&2; code=75 die "pip could not download the Python packages; is there a network?"; }
printf '%s\n' "${PACKAGES[@]}" | "$PYTHON" -c '
import sys
from importlib.metadata import Distribution
from pathlib import Path

source, target = map(Path, sys.argv[1:])
installed = {path.name.split("-")[0].lower().replace("_", "-"): path for path in source.glob("*.dist-info")}
for line in sys.stdin:
    name, *distributions = line.split()
    for distribution in distributions:
        found = Distribution.at(installed[distribution])
        for file in (file for file in found.files if ".." not in file.parts):  # no programs
            (target / name / file).parent.mkdir(parents=True, exist_ok=True)
            (source / file).rename(target / name / file)
' "$KIT/download/python" "$KIT/python"
find "$KIT/python" -name '*.so' -exec strip --strip-debug {} + 2>/dev/null || true  # it is most of some of them

{
    echo "python cp${KIT_PYTHON/./}"
    (cd "$KIT/download" && ls *.deb && cd runtime && ls)
    (cd "$KIT/python" && ls -d */*.dist-info | sed 's|.*/\(.*\).dist-info|\1|')
} >"$KIT/versions"
rm -rf "$KIT/download"
size=$(du -sm "$KIT" | cut -f1)
[ "$size" -lt "$SIZE_MAX_MIB" ] || die "$KIT holds $size MiB, and the limit is $SIZE_MAX_MIB MiB"
echo "gpu-kit: $size MiB in $KIT for Python $KIT_PYTHON. Bring it along, then: make gpu-check GPU_KIT=FOLDER"
