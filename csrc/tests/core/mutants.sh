#!/bin/bash
# Deliberate mistakes in csrc/core, each of which the stress test must report: it checks the test.
# Every mutant is a copy of csrc/core with one `sed` applied (which must change something), built with stress_core.cpp.
set -u
cd "$(dirname "$0")/../../.."
bad=0 only=${1:-}  # only: a part of a mutant's name

mutant() {  # name, files, sed program, extra compiler flags, "arguments" of stress_core, what its output must contain
  [[ $1 == *$only* ]] || return
  local dir=build/mutants/$1
  rm -rf "$dir" && mkdir -p "$dir" && cp -r csrc/core "$dir/core" || exit 2
  for file in $2; do
    sed -i -E "$3" "$dir/core/$file"
    if cmp -s "$dir/core/$file" "csrc/core/$file"; then
      echo "$1: the sed program changes nothing in $file"; bad=1; return
    fi
  done
  ${CXX:-g++} -std=c++20 -O2 -g -pthread $4 "-I$dir" -Icsrc csrc/tests/core/stress_core.cpp "$dir"/core/{segment,heartbeat}.cpp \
    -o "$dir/stress" || { bad=1; return; }
  for try in 1 2 3 4 5 6; do
    timeout 120 "$dir/stress" $5 >"$dir/log" 2>&1
    if grep -qE "$6" "$dir/log"; then printf '%-30s found: %s\n' "$1" "$(grep -m1 -oE "$6" "$dir/log")"; return; fi
  done
  echo "$1: NOT found in $try runs of stress_core $5"; tail -3 "$dir/log"; bad=1
}

# processes: counted wrongly, or stuck for ever
# It matters when the ring has come round meanwhile: sometimes it waits for that, and lets others work (with nothing but
# the wait the test is content).
mutant claim-then-read claimer.h '/FASTQPS_POINT\(2\);/a if (head % 64 == 0) {\
  set_mode(own().sleep, kBusy); waker_.wake_dispatcher(others());\
  for (int n = 0; n < 100 \&\& r.tail.load(kRelaxed) - head <= entries; n++) usleep(100);\
} for (u64 i = 0; i < fits; i++) taken[i] = r.entry[(head + i) \& mask].load(kRelaxed);' \
  '' 'procs 5 0' 'STUCK|BAD'
mutant adopt-frees-slots-in-use slab.h '/held = Held::kOrphan;/{n;s/settle\(i\);/release(i, Word{slot(i).state.load(kAcquire)});/}' \
  '' 'procs 10 66' 'STUCK|BAD'
mutant no-recovery slab.h '/deaths_seen_ = deaths;/{n;s/settle_all\(\);//}' '' 'procs 3 9' 'STUCK|BAD'
mutant lost-between-head-and-claim slab.h 's/(rings_\[r.ring\].head\(\) - r.position\)) > 0/\1 > i64(1) << 62/' '' 'procs 10 9' 'STUCK|BAD'
mutant cancelled-slot-reused slab.h 's/return Cancel::kWaiting;/release(i, w); return Cancel::kWaiting;/' '' 'procs 10 192' 'STUCK|BAD'
mutant no-recheck claimer.h 's/if \(any_work\(\)\) return;//' '' 'procs 15 16' 'STUCK'
mutant door-does-not-recheck slab.h 's/segment_.ring_entries\(\)\)\) return false;/0)) return false;/' '' 'procs 15 16' 'STUCK'
# what weaker orders would allow (order.cpp finds them all; this processor hardly ever shows them)
mutant look-then-announce claimer.h '/void sleep\(i64/,/^  }/{s/announce_sleep\(own\(\).sleep\);//;s/if \(any_work\(\)\) return;/& FASTQPS_POINT(5); announce_sleep(own().sleep);/}' \
  '' 'procs 15 16' 'STUCK'
mutant wake-then-tail slab.h 's/rings_\[ring\].publish\(\);//;s/^    dirty_.clear\(\);/for (u32 ring : dirty_) rings_[ring].publish(); &/' \
  '' 'procs 15 16' 'STUCK'
mutant suspects-share-batches claimer.h 's/claim_class\(batch, kSuspect, 1\)/claim_class(batch, kSuspect, 4)/' '' 'procs 10 32' 'BAD'
mutant suspects-share-device claimer.h 's/if \(mode != ClaimMode::kFree \&\& alone_\) \{/if (false) {/' '' 'procs 10 32' 'BAD'
mutant suspects-beside-others claimer.h 's/\(free \|\| worth_claiming/(true || worth_claiming/;s/if \(mode == ClaimMode::kFree \&\& suspects/if (free \&\& suspects/' '' 'procs 10 4128' 'BAD'
mutant token-budget-ignored claimer.h 's/if \(tokens \+ more > limits_.tokens \&\& tokens\) break;//' '' 'procs 3 0' 'BAD'

mutant canary-of-the-dead-stays slab.h 's/!\(held \&\& segment_\.dead\(w\)\)/true/' '' 'procs 5 9' 'STUCK|BAD'
mutant canary-without-a-bell slab.h '/FASTQPS_POINT\(32\);/{n;s/signal_fd.*;//}' '' 'procs 15 16' 'STUCK'
mutant canary-beside-others claimer.h 's/mode == ClaimMode::kFree\) claim_canary/free) claim_canary/' '' 'procs 5 4096' 'BAD'

mutant old-cancel-drops-another claimer.h 's/ \&\& c.seq == seq\)/)/' '' 'threads 5' 'BAD'
# generators
mutant begun-stream-runs-again slab.h 's/\(!rerun_ \|\| r.begun\)/!rerun_/' '' 'procs 5 2057' 'BAD'
mutant restart-is-not-told slab.h 's/host_.restarted\(i, records_\[i\].user\);//' '' 'procs 5 2057' 'BAD'
mutant tokens-of-the-slots-last-request slab.h 's/^    s.n_made.store\(0, kRelaxed\);//' '' 'procs 5 2048' 'BAD'
mutant tokens-after-the-stop slab.h 's/ \&\& records_\[i\].held == Held::kOpen\)/)/' '' 'procs 5 2176' 'BAD'
mutant progress-fills-the-ring claimer.h 's/capacity\(\) \/ 2/capacity()/' '' 'procs 15 2112' 'STUCK|BAD'
mutant joins-a-suspect claimer.h 's/if \(mode != ClaimMode::kFree \&\& alone_\) \{/if (false) {/' '' 'procs 10 2080' 'BAD'

# threads: what the processor of this machine forgives, TSan does not
san='-O1 -fsanitize=thread'
mutant relaxed-queued-and-tails 'slab.h ring.h' \
  's/(make\(State::kQueued, seq\).bits), kRelease/\1, kRelaxed/;s/tail_, kSeqCst\)/tail_, kRelaxed)/' "$san" 'threads 5' 'data race'
mutant relaxed-claim-and-done claimer.h 's/(\.bits), kAcqRel, kRelaxed/\1, kRelaxed, kRelaxed/' "$san" 'threads 5' 'data race'
mutant relaxed-look-at-done slab.h 's/(slot\(i\).state.load)\(kAcquire\)/\1(kRelaxed)/' "$san" 'threads 5' 'data race'

[ "$only" ] && exit $bad
[ $bad = 0 ] && echo "every mistake was found" || { echo "NOT every mistake was found"; exit 1; }
