#!/usr/bin/env bash
# Builds the wheels of fastqps and of fastqps-client into dist/, and tests them: `make wheel`.
#
# The server's wheel is repaired for the glibc of this machine: auditwheel puts nghttp2, OpenSSL, simdjson and zlib inside. It
# does not link torch. Wheels for any Linux since 2018 need an older glibc: [tool.cibuildwheel] in pyproject.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-.venv/bin}
tools=build/wheel-tools raw=build/wheel-raw

rm -rf dist "$raw" build/lib* build/bdist* client/build
mkdir -p dist
# Without isolation: the extensions are those of `make build`, and only what has changed is compiled.
"$BIN/pip" -q wheel --no-build-isolation --no-deps --wheel-dir "$raw" .
"$BIN/pip" -q wheel --no-build-isolation --no-deps --wheel-dir dist ./client
PATH="$PWD/$tools/bin:$PATH" auditwheel repair --strip --wheel-dir dist "$raw"/fastqps-*.whl
rm -rf client/build client/*.egg-info
"$BIN/python" tools/check_wheels.py dist
ls -l dist
