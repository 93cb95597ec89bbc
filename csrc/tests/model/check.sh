#!/bin/bash
# Model-checks the shared-memory protocol.     ./check.sh [quick|full|mistakes|one MODEL VERDICT FLAGS]     needs: spin, gcc
# Every line below: model, expected verdict, -D flags. "pass" must be free of errors; "fail" is a deliberate mistake that must be found.
set -u
here=$(cd "$(dirname "$0")" && pwd); what=${1:-quick}; jobs=${JOBS:-$(nproc)}
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
printf '%-10s %-5s %-62s %13s %13s %7s  %s\n' model want flags states transitions seconds verdict

one() {  # model want flags
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  check "$@" &
}
check() (
  dir=$(mktemp -d "$tmp/XXXXXX"); cd "$dir" || exit 1
  spin -a $3 "$here/$1.pml" >spin.log 2>&1 || { cat spin.log; touch "$tmp/bad"; exit 1; }
  # -DNOREDUCE: no partial-order reduction, because of "unless"; -DHC4: hash-compacted states; -E: the Judge process decides, not end states
  gcc -O1 -w -DSAFETY -DNOREDUCE ${COMPACT--DHC4} -DVECTORSZ=1024 -o pan pan.c || { touch "$tmp/bad"; exit 1; }
  local t0=$SECONDS; ./pan -E -n -m5000000 >pan.log 2>&1
  local s tr e got=pass
  s=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log); tr=$(sed -n 's/^ *\([0-9.e+]*\) transitions.*/\1/p' pan.log)
  e=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log)
  [ "$e" = 0 ] || got=fail
  grep -qE 'max search depth too small|out of memory|VECTORSZ' pan.log && got=incomplete
  local say=ok; [ "$got" = "$2" ] || { say="WRONG ($got)"; touch "$tmp/bad"; }
  [ "$got" = fail ] && say="$say: $(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' pan.log | head -1 | cut -c1-60)"
  printf '%-10s %-5s %-62s %13s %13s %7s  %s\n' "$1" "$2" "$3" "$(printf %.0f "$s")" "$(printf %.0f "$tr")" $((SECONDS - t0)) "$say"
  cd "$here"; rm -rf "$dir"
)

quick() {
  one ring     pass "-DKC=1 -DKP=0"
  one protocol pass "-DKD=0 -DR=3"
  one protocol pass "-DKD=1 -DR=2"
  one protocol pass "-DKD=1 -DR=1 -DRESPAWN=0 -DNC=1"
  one protocol pass "-DKD=0 -DR=2 -DKF=1 -DNC=1"
  one protocol pass "-DKD=1 -DR=1 -DKF=1 -DNC=1"
  one protocol pass "-DKD=0 -DR=2 -DPOISON=1"
  one protocol pass "-DKD=0 -DR=2 -DPOISON=1 -DGEN=1"
  one protocol pass "-DKD=0 -DR=2 -DPOISON=3 -DGEN=1"
  one protocol pass "-DKD=1 -DR=1 -DGEN=1 -DPOISON=3"
  one protocol pass "-DKD=1 -DR=1 -DGEN=1 -DNC=1"
  one protocol pass "-DFREEZE=1 -DKD=1 -DR=2 -DNC=1"
  one protocol pass "-DFREEZE=1 -DKD=1 -DR=1 -DWAKE=1"
  one protocol pass "-DKD=0 -DR=2 -DS=1 -DWAKE=1"
  one protocol pass "-DKD=0 -DR=2 -DCANARY=1"
  one protocol pass "-DKD=0 -DR=1 -DKF=1 -DCANARY=1"
  one wake     pass "-DR=2"
  one wake     pass "-DR=1 -DKD=1 -DRESPAWN=0"
  one wake     pass "-DR=1 -DLINGER=1"
  one wake     pass "-DR=1 -DLEAVE=1"
  one wake     pass "-DR=2 -DJOIN=1 -DAHEAD=0 -DSTUCK=1"
  one wake     pass "-DR=2 -DBESIDE=1 -DAHEAD=0"
  one wake     pass "-DR=2 -DBESIDE=1 -DAHEAD=0 -DSTUCK=1"
  one wake     pass "-DR=2 -DHOLD=1 -DAHEAD=0"
  one wake     pass "-DR=1 -DHOLD=1 -DAHEAD=0 -DKD=1 -DRESPAWN=0"
  one progress pass "-DR=1 -DNC=1"
  one progress pass "-DKD=0 -DS=2 -DNC=1"
  one progress pass "-DKD=0 -DNC=2"
  one progress pass "-DKD=0 -DNC=1 -DQUIET=1"
  one progress pass "-DKD=0 -DNC=1 -DKF=1"
  one progress pass "-DKD=0 -DNC=2 -DENDLESS=1"
  one progress pass "-DKD=1 -DNC=1 -DR=1 -DKF=1 -DENDLESS=1"
}
# Larger ones that come to an end: up to 100 million states and 4 GB each.
full() {
  one ring     pass "-DKC=1 -DKP=1"
  one ring     pass "-DKC=1 -DKP=0 -DCAP=3 -DN=6"
  one protocol pass "-DKD=1 -DR=2 -DCAP=2"
  one protocol pass "-DKD=1 -DR=2 -DS=1 -DNC=1"
  one protocol pass "-DKD=0 -DR=2 -DWAKE=1"
  one protocol pass "-DKD=1 -DR=1 -DS=1 -DWAKE=1"
  one protocol pass "-DKD=2 -DR=1"
  one protocol pass "-DKD=2 -DR=1 -DGEN=1"
  one protocol pass "-DKD=0 -DR=2 -DKF=2 -DNC=1"
  one protocol pass "-DKD=0 -DR=2 -DPOISON=2"
  one protocol pass "-DKD=0 -DR=3 -DPOISON=1"
  one protocol pass "-DKD=1 -DR=1 -DCANARY=1"
  one protocol pass "-DKD=0 -DR=1 -DS=1 -DWAKE=1 -DCANARY=1"
  one protocol fail "-DMUT=28 -DKD=0 -DR=1 -DS=1 -DKF=1 -DWAKE=1 -DCANARY=1"  # a new front door does not ring for an old canary
  one wake     pass "-DR=1 -DKD=1"
  one wake     pass "-DR=2 -DKD=1 -DRESPAWN=0"
  one wake     pass "-DR=2 -DLINGER=1"
  one wake     pass "-DR=2 -DLEAVE=1"
  one wake     pass "-DR=1 -DKD=1 -DLINGER=1"
  one wake     pass "-DR=1 -DJOIN=1 -DAHEAD=0 -DKD=1 -DRESPAWN=0"
  one wake     pass "-DR=1 -DBESIDE=1 -DAHEAD=0 -DKD=1 -DRESPAWN=0"
  one wake     pass "-DR=3 -DHOLD=1 -DAHEAD=0 -DSTUCK=1"
  one wake     pass "-DR=2 -DHOLD=1 -DAHEAD=0 -DKD=1 -DRESPAWN=0"
  one progress pass "-DKD=1"
  one progress pass "-DKD=2 -DR=1"
  one progress pass "-DKD=0 -DS=2 -DR=3"
}
mistakes() {
  one ring     fail "-DKC=0 -DKP=0 -DMUT=3"                     # claim first, read the entries after
  one ring     fail "-DKC=0 -DKP=0 -DMUT=17"                    # tail before entry
  one ring     fail "-DKC=0 -DKP=0 -DIDX=4"                     # narrow positions: ABA on head
  one protocol fail "-DMUT=1 -DR=1"                             # nobody looks for requests lost between CAS head and CLAIMED
  one protocol fail "-DMUT=2 -DR=2 -DS=1"                       # fence by epoch, without a kill: late answer lands in a reused slot
  one protocol fail "-DMUT=4 -DKD=0 -DKF=1 -DR=2 -DS=1"         # a new front door frees slots that a living dispatcher holds
  one protocol fail "-DMUT=5 -DKD=0 -DKF=1 -DR=2 -DS=1 -DWAKE=1"  # a new front door leaves old entries in its ring
  one protocol fail "-DMUT=10 -DR=1"                            # DONE before the answer is written
  one protocol fail "-DMUT=13 -DKD=0 -DNC=1 -DR=2 -DS=1"        # a cancelled slot is reused while its dispatcher still runs
  one protocol fail "-DMUT=18 -DKD=0 -DNC=1 -DR=2 -DS=1"        # an old cancel drops the slot's next request
  one protocol fail "-DMUT=14 -DKD=0 -DPOISON=2 -DR=2"          # "claimed, not launched" is always requeued untouched: endless poison
  one protocol fail "-DMUT=21 -DKD=0 -DPOISON=3 -DGEN=1 -DR=1"  # one strike for tokens also when it ran alone: a killer lives too long
  one protocol fail "-DMUT=22 -DKD=0 -DPOISON=3 -DGEN=1 -DR=1"  # no strike for who has made tokens: endless poison
  one protocol fail "-DMUT=23 -DKD=0 -DPOISON=1 -DR=2"          # suspects share a batch: an innocent one ends as poison
  one protocol fail "-DMUT=24 -DKD=2 -DR=1"                     # a suspect does not run alone: it ends as poison in company
  one protocol fail "-DMUT=26 -DR=1 -DS=1 -DCANARY=1"           # a canary whose dispatcher died keeps its slot
  one protocol fail "-DMUT=27 -DKD=0 -DR=1 -DS=1 -DWAKE=1 -DCANARY=1"  # a canary's bell is not rung
  one protocol fail "-DMUT=29 -DKD=0 -DR=1 -DS=1 -DKF=1 -DCANARY=1"  # a new front door frees the slot of a canary that runs
  one wake     fail "-DMUT=8"                                   # dispatcher: look, announce, sleep
  one wake     fail "-DMUT=9 -DR=1"                             # front door: look, announce, sleep
  one wake     fail "-DMUT=7 -DKD=1 -DRESPAWN=0 -DAHEAD=0"      # the waker clears the sleep flag
  one wake     fail "-DMUT=6 -DKD=1 -DRESPAWN=0"                # no new wake-up after a death
  one wake     fail "-DMUT=15 -DKD=1 -DRESPAWN=0"               # a dead sleeper is still counted as a sleeper
  one wake     fail "-DMUT=16 -DR=1 -DKD=1 -DRESPAWN=0"         # the supervisor does not signal the front doors
  one wake     fail "-DMUT=11 -DSTUCK=1"                        # what one dispatcher leaves in the ring is not passed on
  one wake     fail "-DMUT=19 -DR=1 -DLEAVE=1"                  # a dispatcher that leaves keeps its wake-up to itself
  one wake     fail "-DMUT=20 -DJOIN=1 -DAHEAD=0 -DSTUCK=1"     # a dispatcher that does not let a request join wakes nobody for it
  one wake     fail "-DMUT=26 -DR=3 -DHOLD=1 -DAHEAD=0 -DSTUCK=1" # a dispatcher that makes room wakes no door that holds requests back
  one wake     fail "-DMUT=27 -DR=3 -DHOLD=1 -DAHEAD=0 -DSTUCK=1" # a door that holds requests back announces its sleep without another look
  one wake     fail "-DMUT=25 -DBESIDE=1 -DAHEAD=0 -DSTUCK=1"   # a dispatcher that rests while a lane runs wakes nobody for what it leaves
  one progress fail "-DMUT=1 -DR=1"                             # n_made is not reset when a request is queued again
  one progress fail "-DMUT=2 -DR=1"                             # a stream that has begun runs again
  one progress fail "-DMUT=3 -DR=1"                             # the reader goes on behind the tokens of the first life
  one progress fail "-DMUT=4 -DKD=0 -DS=2"                      # progress hints leave no room for those of the ends
  one progress fail "-DMUT=5 -DKD=0 -DR=1"                      # n_made before the token
  one progress fail "-DMUT=6 -DKD=0"                            # n_made is not reset when a slot is used again
  one progress fail "-DMUT=7 -DKD=0 -DNC=1"                     # a stopped slot is reused while its dispatcher still runs
  one progress fail "-DMUT=8 -DKD=0 -DNC=1"                     # an old stop ends the slot's next request
  one progress fail "-DMUT=9 -DKD=0 -DNC=1 -DR=1"               # tokens that come after the stop are sent
  one progress fail "-DMUT=10 -DKD=0 -DNC=2 -DENDLESS=1"        # a cancel that found its control ring full is not said again
  one progress fail "-DMUT=10 -DKD=0 -DR=1 -DKF=1 -DENDLESS=1"  # a new front door does not say that nobody waits
}
case $what in quick) quick; mistakes ;; full) quick; full; mistakes ;; mistakes) mistakes ;; one) shift; one "$@" ;; *) echo "quick, full or mistakes"; exit 2 ;; esac
wait
[ ! -e "$tmp/bad" ] && echo "all as expected" || { echo "NOT as expected"; exit 1; }
