#!/usr/bin/env bash
# Installs the clients that tests/clients run into build/clients, an environment of their own: the packages of
# tests/clients/requirements.txt, and perf_analyzer with the two libraries that it needs. `make test-clients` calls it;
# it does nothing if they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/clients requirements=tests/clients/requirements.txt
made=$(cat "$requirements" tools/clients.sh | sha256sum)
[ "$(cat "$folder/made" 2>/dev/null)" != "$made" ] || exit 0

echo "clients: installing those of $requirements into $folder (minutes, 850 MB)"
rm -rf "$folder"
"${PYTHON:-python3}" -m venv "$folder"
pip=("$folder/bin/python" -m pip -q --disable-pip-version-check)
# Every package is pinned, so that there is nothing to resolve.
"${pip[@]}" install --no-deps --no-compile -r "$requirements"

# The newest tritonclient that brings perf_analyzer; later wheels leave it out. It is not installed beside the tested one.
download=$folder/download
"${pip[@]}" download --no-deps -d "$download" tritonclient==2.44.0
"$folder/bin/python" -m zipfile -e "$download"/tritonclient-*.whl "$download/wheel"
install -D -t "$folder/perf_analyzer" "$download"/wheel/*.data/data/bin/perf_analyzer
cp "$folder"/lib/python3.*/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12 "$folder/perf_analyzer/"
if ! ldconfig -p | grep -q 'libb64\.so\.0d'; then
    (cd "$download" && apt-get -q download libb64-0d && dpkg-deb -x libb64-0d_*.deb libb64) ||
        echo "clients: no libb64-0d, so perf_analyzer will not run: apt-get install libb64-0d" >&2
    find "$download" -name 'libb64.so.0d' -exec cp -L {} "$folder/perf_analyzer/" \;
fi
rm -r "$download"
echo "$made" >"$folder/made"
