#!/usr/bin/env bash
# All that takes too long for `make test`. `tools/nightly.sh PART…` runs these parts; without names, all of them. Each part
# runs whatever became of the others; the end says what ran, how long it took and how it ended.
set -uo pipefail
cd "$(dirname "$0")/.."
export BIN=${BIN:-.venv/bin}
exec </dev/null

parts=(day perf includes clients witnesses tests static random rolls soak generation wheel docs arm64 sanitizers floats model fuzz stress mistakes)
run() {
    case $1 in
        day) SECOND_LOOKS=0 tools/test.sh ;;
        perf) make perf ;;
        clients) make test-clients ;;
        witnesses) make test-witnesses ;;
        includes) make -j"$(nproc)" includes ;;
        tests) "$BIN/python" -m pytest -m "nightly and not perf" -v --durations=0 tests ;;
        static) FASTQPS_STATIC_TEXTS=100000 "$BIN/python" -m pytest -v --timeout 0 tests/models/test_static.py ;;
        random) FASTQPS_SENTENCE_RUNS=50 FASTQPS_ENTITY_TEXTS=500 FASTQPS_OPTION_SCENARIOS=100 \
            "$BIN/python" -m pytest -v --timeout 0 tests/models/test_file_keys.py tests/models/test_token_classifiers.py \
            tests/kernels/test_kernels_options.py ;;
        rolls) FASTQPS_ROLLS=20 "$BIN/python" -m pytest -v tests/proxies/test_rolling_restart.py ;;
        soak) FASTQPS_SOAK=600 FASTQPS_GENERATIONS=100000 "$BIN/python" -m pytest -v --timeout 0 \
            tests/e2e/recovery/test_soak.py tests/e2e/generation/test_generation_ledger.py ;;
        generation) make test-generation ;;
        wheel) make wheel ;;
        docs) make docs ;;
        arm64) make arm64 ;;
        sanitizers)
            make native-test SAN=address && make native-test SAN=undefined && make native-test SAN=thread ;;
        floats) make build/native/test_json && FASTQPS_FLOATS_EVERY=1 build/native/test_json test_floats ;;
        model) make model-full ;;
        fuzz) make fuzz-wire && make fuzz-tokenizer && make fuzz-native && make fuzz-control ;;
        stress) make stress ;;
        mistakes) "$BIN/python" tests/faults/plant.py ;;
    esac
}

for part in "$@"; do
    [[ " ${parts[*]} " == *" $part "* ]] || { echo "nightly: no part \"$part\"; there are: ${parts[*]}" >&2; exit 2; }
done
[ $# -gt 0 ] || set -- "${parts[@]}"

summary=() failed=0
for part in "$@"; do
    printf '\n== nightly: %s\n' "$part"
    began=$SECONDS
    if run "$part"; then end=passed; else end=FAILED failed=1; fi
    summary+=("$(printf '%-12s %s in %5d s' "$part" "$end" $((SECONDS - began)))")
done
printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
exit $failed
