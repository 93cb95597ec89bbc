#include "service/tables/door.h"

#include <algorithm>
#include <cstdio>

#include "core/clock.h"

namespace fastqps::service {

namespace {

constexpr u64 kPoisonNs = 600'000'000'000;  // ten minutes

// Of token ids, to recognise a request when a client repeats it.
u64 fingerprint(const u32* ids, u32 n) {
  u64 h = 0x9e3779b97f4a7c15u ^ n;
  for (u32 i = 0; i < n; i++) {
    h = (h ^ ids[i]) * 0xff51afd7ed558ccdu;
    h ^= h >> 29;
  }
  return h ? h : 1;  // 0 means: no mark
}

}  // namespace

bool DoorMemory::find_poison(Slot& slot, u64 now) const {
  const u64 print = fingerprint(segment.ids(slot), slot.n_tokens.load(kRelaxed));
  for (u32 f = 0; f < segment.sizes().doors; f++)
    for (const PoisonMark& mark : segment.door(f).poison)
      if (mark.fingerprint.load(kRelaxed) == print && mark.until_ns.load(kRelaxed) > now) return true;
  return false;
}

void DoorMemory::mark_poison(Slot& slot) const {
  const u64 print = fingerprint(segment.ids(slot), std::min(slot.n_tokens.load(kRelaxed), segment.sizes().max_tokens));
  PoisonMark* marks = line.poison;
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
  bump(stats.poisoned);
  std::fprintf(stderr, "poison request %016llx (%u tokens, %u strikes): refused for ten minutes\n",
               (unsigned long long)print, slot.n_tokens.load(kRelaxed), slot.strikes);
}

void PhaseWatch::watch(u64 now) {
  using fastqps::Phase;
  const Phase phase = memory_.segment.supervisor().phase.load(kAcquire);
  transport::LoopControl* const loop = attachment_.loop;
  if (phase == phase_ || !loop) return;
  phase_ = phase;
  if (phase == Phase::kServing || phase == Phase::kLameDuck) {
    loop->set_serving(phase == Phase::kServing ? transport::Serving::kServing : transport::Serving::kNotServing);
  } else if (phase == Phase::kDraining) {
    const u64 until = memory_.segment.supervisor().drain_deadline_ns.load(kRelaxed);
    drain_began_ns_ = now;
    drain_by_ns_ = std::max(until, now);
    loop->drain(drain_by_ns_ - now);
  } else if (phase == Phase::kStopping) {
    loop->stop();
  }
}

}  // namespace fastqps::service
