#!/usr/bin/env bash
# The GPU suite on whatever machine this is: builds the extensions if they are not, and runs `python -m bench.gpu` with
# the words given. `make gpu-check` calls it with PYTHON and KIT, the folder that `make gpu-kit` may have filled.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3} KIT=${KIT:-build/gpu-kit}

die() { printf 'gpu-check: %s\n' "$*" >&2; exit 1; }

# Of the names given those that Python cannot import.
lacking() {
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

export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
carried=""  # what there is of a kit, in words
if [ -f "$KIT/versions" ]; then
    KIT=$(cd "$KIT" && pwd)
    here=$("$PYTHON" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
    made=$(sed -n 's/^python //p' "$KIT/versions")
    if [ "$here" = "$made" ]; then
        read -ra names <<<"$(cd "$KIT/python" && echo *)"
        for name in $(lacking "${names[@]}"); do PYTHONPATH="$PYTHONPATH:$KIT/python/$name"; done
    else
        carried=" ($KIT is for $made, and this is $here)"
    fi
    if ! echo '#include <nghttp2/nghttp2.h>' | "${CXX:-g++}" -E -x c++ - >/dev/null 2>&1; then
        export FASTQPS_NGHTTP2=$KIT/usr LDFLAGS="${LDFLAGS:-} -Wl,-rpath,$KIT/usr/lib"
        export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$KIT/usr/lib"  # of extensions built elsewhere
    fi
    # Behind the system's, and for the build alone.
    export CPLUS_INCLUDE_PATH="${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$KIT/usr/include"
    export LIBRARY_PATH="${LIBRARY_PATH:+$LIBRARY_PATH:}$KIT/usr/link"
fi
# Too large for a kit, and what it needs to be read by.
own=$(lacking torch numpy safetensors tokenizers transformers sentence_transformers setuptools) ||
    die "$PYTHON does not start; name another one: make gpu-check PYTHON=python3.12"
[ -z "$own" ] || die "$PYTHON lacks: $own. They have to be installed on this machine (make setup does it where there is" \
    "a network), or name another Python that has them: make gpu-check PYTHON=…"
missing=$(lacking grpc google.protobuf uvloop setproctitle prometheus_client hdrh pybind11 pytest pytest_timeout)
[ -z "$missing" ] || die "$PYTHON lacks: $missing$carried. On a machine with a network run make gpu-kit" \
    "KIT_PYTHON=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])'), and bring build/gpu-kit here"

if ! "$PYTHON" -c 'import fastqps._core, fastqps._front, loadgen._native' 2>/dev/null; then
    echo "gpu-check: building the C++ extensions"
    log=build/gpu-check/build.log
    mkdir -p build/gpu-check
    "$PYTHON" setup.py -q build_ext --inplace >"$log" 2>&1 || { tail -20 "$log" >&2; die "the build failed: $log"; }
fi
exec "$PYTHON" -m bench.gpu "$@"
