#!/usr/bin/env bash
# Unpacks the arm64 packages of this Debian that fastqps is compiled against into a folder, beside those of the C library,
# which come with the cross compiler. Needs no root, and leaves the system's packages alone. `make arm64` calls it.
#   tools/arm64_sysroot.sh FOLDER
set -euo pipefail
folder=$(realpath -m "$1")
# packages.apt names them for setup; their libraries are wanted, too, because the tests run. The rest is a Python, for the wheel.
packages=(libnghttp2-dev libnghttp2-14 libssl-dev libssl3 zlib1g-dev zlib1g libsimdjson-dev libsimdjson14
    nlohmann-json3-dev libboost1.81-dev libpython3.11-dev
    python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libexpat1 libffi8 libbz2-1.0 liblzma5 libuuid1 libsqlite3-0)
mkdir -p "$folder"/apt/{lists/partial,cache/archives/partial} "$folder/debs"
touch "$folder/apt/status"
apt=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$folder/apt" -o Dir::State::status="$folder/apt/status"
    -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User=)
apt-get "${apt[@]}" update
(cd "$folder/debs" && apt-get "${apt[@]}" download "${packages[@]}")
for package in "$folder"/debs/*.deb; do dpkg-deb -x "$package" "$folder"; done
rm -r "$folder/apt" "$folder/debs"
