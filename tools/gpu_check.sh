#!/usr/bin/env bash
# Runs the GPU suite, `python -m bench.gpu` with the arguments given. Before that it takes from a kit what this machine
# lacks, reports everything that is still missing in one message, and builds the C++ extensions if they are not built. `make gpu-check` calls it with PYTHON and KIT, the folder that `make gpu-kit` filled.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3} KIT=${KIT:-build/gpu-kit}
read -ra compiler <<<"${CXX:-g++}"

die() { printf 'gpu-check: %s\n' "$*" >&2; exit 1; }

# ---- what this machine lacks

# Those of the given names that Python cannot import.
lacking_modules() {
    "$PYTHON" - "$@" <<'EOF'
import sys
from importlib.util import find_spec
def lacks(name):
    try:
        return find_spec(name) is None
    except ModuleNotFoundError:
        return True
print(*filter(lacks, sys.argv[1:]))
EOF
}

# Whether the dynamic loader finds the given shared libraries, as it would for an extension that needs them.
loads() {
    local path
    for path in "$@"; do [ -z "$(LD_PRELOAD=${path##*/} /bin/true 2>&1)" ] || return 1; done
}

# The headers that the C++ sources include and the compiler cannot find. pybind11 is a Python package.
lacking_headers() {
    local header
    grep -rhoP --include=*.h --include=*.cpp --exclude-dir={tests,bench,model} '^#include <\K[^>]+' csrc loadgen/csrc |
        grep -v '^pybind11/' | sort -u | while read -r header; do
        printf '#if !__has_include(<%s>)\n%s\n#endif\n' "$header" "$header"
    done | "${compiler[@]}" -E -P -x c++ - | xargs
}

# The libraries that csrc/build.mk links and the linker cannot find.
lacking_libraries() {
    local name
    for name in $(grep '^LIBRARIES' csrc/build.mk | grep -oP ' -l\K\w+' | sort -u); do
        "${compiler[@]}" -shared -x c++ /dev/null -o /dev/null "-l$name" 2>/dev/null || printf '%s ' "$name"
    done
}

# ---- the kit

export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])') ||
    die "$PYTHON does not start; name another one: make gpu-check PYTHON=python3.12"
advice="run make gpu-kit KIT_PYTHON=$version on a machine with a network, and bring build/gpu-kit here"
if [ -f "$KIT/versions" ]; then
    KIT=$(cd "$KIT" && pwd)
    kit_version=$(sed -n 's/^python cp\([0-9]\)/\1./p' "$KIT/versions")
    if [ "$version" = "$kit_version" ]; then
        read -ra names <<<"$(cd "$KIT/python" && echo *)"
        for name in $(lacking_modules "${names[@]}"); do PYTHONPATH="$PYTHONPATH:$KIT/python/$name"; done
    else
        advice="the kit in $KIT is for Python $kit_version, and this is $version: $advice"
    fi
    # Headers and link names come from the kit alone, so that they fit each other. At run time the machine's own libraries
    # come first: Python may have loaded them into the same process.
    export CPLUS_INCLUDE_PATH="$KIT/usr/include${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}"
    export LIBRARY_PATH="$KIT/usr/link${LIBRARY_PATH:+:$LIBRARY_PATH}"
    for folder in "$KIT"/usr/run/*; do
        LIBRARY_PATH="$LIBRARY_PATH:$folder"
        loads "$folder"/* && continue
        export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"  # of extensions that are built already
        export LDFLAGS="${LDFLAGS:-} -Wl,-rpath,$folder"
    done
fi

# ---- everything that is missing, in one message

missing=()
found=$(lacking_modules torch numpy safetensors tokenizers transformers setuptools)
other="install them, or name another Python that has them: make gpu-check PYTHON=…"
[ -z "$found" ] || missing+=("Python packages that a kit does not hold: $found ($other)")
found=$(lacking_modules grpc google.protobuf uvloop setproctitle prometheus_client pynvml llguidance pybind11 pytest pytest_timeout xdist)
[ -z "$found" ] || missing+=("Python packages: $found ($advice)")
command -v ${CC:-gcc clang} >/dev/null || missing+=("a C compiler, which Triton needs to start kernels: ${CC:-gcc or clang}")
header=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
[ -f "$header" ] || missing+=("Python's headers, which Triton and the build need: $header (install python$version-dev)")
# An editable install of another checkout does not count.
built() {
    "$PYTHON" -c 'import fastqps._core as core, fastqps._front as front, loadgen._native as load, os, sys
sys.exit(not all(os.path.samefile(os.path.dirname(module.__file__) + "/..", ".") for module in (core, front, load)))' \
        2>/dev/null
}
if ! built; then
    if command -v "${compiler[0]}" >/dev/null; then
        found=$(lacking_headers)
        [ -z "$found" ] || missing+=("C++ headers: $found ($advice)")
        found=$(lacking_libraries)
        [ -z "$found" ] || missing+=("libraries to link: $found ($advice)")
    else
        missing+=("a C++ compiler, which builds the extensions: ${compiler[0]}")
    fi
fi
[ "${#missing[@]}" = 0 ] || die "missing on this machine:$(printf '\n  %s' "${missing[@]}")"
built || "$PYTHON" setup.py -q build_ext --inplace || die "the extensions could not be built"
exec "$PYTHON" -m bench.gpu --spent "$SECONDS" "$@"
