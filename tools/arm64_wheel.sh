#!/usr/bin/env bash
# The wheel of what `make arm64` has compiled, into dist/. An arm64 Python serves from it under qemu-user, with the null device,
# which needs no torch, and answers a client of this machine. In its user namespace the kernel starts arm64 programs by qemu.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-.venv/bin}
root=$PWD/build/arm64 raw=build/wheel-arm64 tools=$PWD/build/wheel-tools/bin
rm -rf "$raw" dist/fastqps-*_aarch64.whl
FASTQPS_PYTHON_ONLY=1 "$BIN/pip" -q wheel --no-build-isolation --no-deps --wheel-dir "$raw" .
"$tools/wheel" unpack --dest "$raw" "$raw"/fastqps-*.whl
folder=$(find "$raw" -mindepth 1 -maxdepth 1 -type d)
for extension in fastqps._core fastqps._front loadgen._native; do
    cp "build/native-arm64/cpython-311/$extension.so" "$folder/${extension/.//}.cpython-311-aarch64-linux-gnu.so"
done
sed -i 's/^Root-Is-Purelib: .*/Root-Is-Purelib: false/; s/^Tag: .*/Tag: cp311-cp311-linux_aarch64/' "$folder"/*.dist-info/WHEEL
"$tools/wheel" pack --dest-dir "$raw" "$folder"
PATH=$tools:$PATH LD_LIBRARY_PATH=$root/usr/lib/aarch64-linux-gnu auditwheel repair --wheel-dir dist "$raw"/*-linux_aarch64.whl

packages=(numpy safetensors tokenizers huggingface-hub grpcio protobuf typing-extensions uvloop setproctitle prometheus-client nvidia-ml-py)
"$BIN/pip" install -q --no-deps --no-compile --only-binary=:all: --python-version 3.11 --target "$raw/site" \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 "${packages[@]}"
"$BIN/python" -m zipfile -e dist/fastqps-*_aarch64.whl "$raw/site"
export QEMU_LD_PREFIX=$root PYTHONPATH=$PWD/$raw/site
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
coproc SERVER { cd / && exec unshare --map-root-user --mount sh -euc '
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    printf %s ":qemu:M::$1:$2:$(command -v qemu-aarch64):F" >/proc/sys/fs/binfmt_misc/register
    exec "$3/usr/bin/python3.11" -m fastqps serve grammar --device=null --port=0 --http-port=off --admin-port=0
' sh "$magic" "$mask" "$root" 2>&1; }
server=$SERVER_PID
trap 'kill "$server" 2>/dev/null || :' EXIT
while read -r line <&"${SERVER[0]}"; do
    echo "$line"
    [[ ! $line =~ ready:.*\ at\ ([0-9.:]+), ]] || { address=${BASH_REMATCH[1]}; break; }
done
PYTHONPATH= "$BIN/fastqps" predict --address "$address" --max-tokens 4 "She have a apple."
kill "$server"
wait "$server"
ls -l dist/fastqps-*_aarch64.whl
