#!/usr/bin/env bash
# What a GPU machine without a network lacks, in one folder of some MiB: nghttp2, the headers
# of zlib and nlohmann-json, and Python packages beside those that machines for models have. Run on a Debian or
# Ubuntu machine with a network; take the folder along with the checkout. `make gpu-kit` calls it with KIT,
# KIT_PYTHON (the GPU machine's version) and PYTHON (this machine's, for pip).
set -euo pipefail
cd "$(dirname "$0")/.."
KIT=${KIT:-build/gpu-kit} KIT_PYTHON=${KIT_PYTHON:-3.12} PYTHON=${PYTHON:-python3}

die() { printf 'gpu-kit: %s\n' "$*" >&2; exit 1; }

DEBIAN=(libnghttp2-dev libnghttp2-14 nlohmann-json3-dev zlib1g-dev zlib1g)
# What is imported, and the packages that bring it. `make gpu-check` takes those that a machine lacks, and no others:
# torch's own surroundings stay as they are.
PACKAGES=(
    "setproctitle setproctitle"
    "hdrh hdrhistogram pbr"
    "uvloop uvloop"
    "pybind11 pybind11"
    "prometheus_client prometheus-client"
    "pynvml nvidia-ml-py"
    "grpc grpcio"
    "google.protobuf protobuf"
    "pytest pytest pluggy iniconfig packaging"
    "pytest_timeout pytest-timeout"
)
TAGS=(manylinux_2_28_x86_64 manylinux_2_27_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64 manylinux_2_5_x86_64
    manylinux1_x86_64 any)

rm -rf "$KIT"
mkdir -p "$KIT/usr/include" "$KIT/usr/lib" "$KIT/usr/link" "$KIT/python" "$KIT/download"
KIT=$(cd "$KIT" && pwd)
(cd "$KIT/download" && apt-get download -q "${DEBIAN[@]}" >/dev/null) ||
    die "apt-get download failed (run apt-get update first, or use a Debian or Ubuntu machine)"
for package in "$KIT"/download/*.deb; do dpkg-deb -x "$package" "$KIT/download/unpacked"; done
found=$KIT/download/unpacked/usr
cp -r "$found/include/." "$KIT/usr/include/"
# Shared ones: the static libraries are of code that cannot be part of an extension. Every machine has zlib itself; what
# is linked against is a file of another name.
libraries=$found/lib/x86_64-linux-gnu
cp -L "$libraries/libnghttp2.so.14" "$KIT/usr/lib/libnghttp2.so.14"
cp "$KIT/usr/lib/libnghttp2.so.14" "$KIT/usr/lib/libnghttp2.so"
cp -L "$KIT"/download/unpacked/lib/x86_64-linux-gnu/libz.so.1 "$KIT/usr/link/libz.so" 2>/dev/null ||
    cp -L "$libraries/libz.so.1" "$KIT/usr/link/libz.so"
multiarch=$KIT/usr/include/x86_64-linux-gnu
if [ -d "$multiarch" ]; then cp -r "$multiarch/." "$KIT/usr/include/" && rm -rf "$multiarch"; fi

tags=()
for tag in "${TAGS[@]}"; do tags+=(--platform "$tag"); done
options=(-q --disable-pip-version-check --no-deps --only-binary=:all: --python-version "$KIT_PYTHON" --implementation cp
    "${tags[@]}")
for line in "${PACKAGES[@]}"; do
    read -ra words <<<"$line"
    mkdir "$KIT/download/${words[0]}"
    "$PYTHON" -m pip download "${options[@]}" -d "$KIT/download/${words[0]}" "${words[@]:1}" 2>"$KIT/download/log" ||
        { cat "$KIT/download/log" >&2; die "pip download of ${words[*]:1} failed"; }
    "$PYTHON" -m pip install "${options[@]}" --no-index --no-compile --target "$KIT/python/${words[0]}" \
        "$KIT/download/${words[0]}"/*.whl 2>"$KIT/download/log" ||
        { cat "$KIT/download/log" >&2; die "pip install of ${words[*]:1} failed"; }
done
find "$KIT/python" -name '*.so' -exec strip --strip-debug {} + 2>/dev/null || true  # it is most of some of them
{
    echo "python cp${KIT_PYTHON/./}"
    (cd "$KIT/download" && ls *.deb && ls */*.whl | sed 's|.*/||')
} >"$KIT/versions"
rm -rf "$KIT/download"
size=$(du -sm "$KIT" | cut -f1)
largest=$(find "$KIT" -type f -size +48M | head -1)
[ -z "$largest" ] || die "$largest is larger than 48 MiB"
[ "$size" -lt 48 ] || die "$KIT holds $size MiB, and 48 are the most"
echo "gpu-kit: $size MiB in $KIT for Python $KIT_PYTHON. Bring it along, then: make gpu-check GPU_KIT=FOLDER"
