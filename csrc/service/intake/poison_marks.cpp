#include "service/intake/poison_marks.h"

#include <algorithm>
#include <cstdio>

#include "core/clock.h"
#include "service/answers/slot_events.h"
#include "service/intake/fingerprint.h"

namespace fastqps::service {

namespace {
constexpr u64 kPoisonNs = 600'000'000'000;  // ten minutes
}

bool PoisonMarks::find(Slot& slot, u64 now) const {
  const Segment& segment = memory_.segment;
  const u64 print = fingerprint(segment.ids(slot), slot.n_tokens.load(kRelaxed));
  for (u32 f = 0; f < segment.sizes().doors; f++)
    for (const PoisonMark& mark : segment.door(f).poison)
      if (mark.fingerprint.load(kRelaxed) == print && mark.until_ns.load(kRelaxed) > now) return true;
  return false;
}

void PoisonMarks::mark(u32 slot) {
  Slot& s = slots_.slot(slot);
  const Segment& segment = memory_.segment;
  const u64 print = fingerprint(segment.ids(s), std::min(s.n_tokens.load(kRelaxed), segment.sizes().max_tokens));
  PoisonMark* marks = memory_.line.poison;
  PoisonMark* oldest = std::min_element(marks, marks + kPoisonEntries, [](const PoisonMark& a, const PoisonMark& b) {
    return a.until_ns.load(kRelaxed) < b.until_ns.load(kRelaxed);
  });
  oldest->fingerprint.store(print, kRelaxed);
  const u64 until = now_ns() + kPoisonNs;
  oldest->until_ns.store(until, kRelaxed);
  // The doors read this word first. Release: a door that reads the new value also reads the mark, before any client is
  // answered.
  std::atomic<u64>& last = segment.supervisor().poison_until_ns;
  for (u64 seen = last.load(kRelaxed); seen < until && !last.compare_exchange_weak(seen, until, kRelease, kRelaxed);) {}
  bump(memory_.stats.poisoned);
  std::fprintf(stderr, "poison request %016llx (%u tokens, %u strikes): refused for ten minutes\n",
               (unsigned long long)print, s.n_tokens.load(kRelaxed), s.strikes);
}

}  // namespace fastqps::service
