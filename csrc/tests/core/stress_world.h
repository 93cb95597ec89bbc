// What the stress test's processes share beside the segment: the ledger of every request, and what was counted. Not
// part of the protocol; nobody under test reads it.
#pragma once
#ifndef FASTQPS_POINTS
#error "define FASTQPS_POINTS before any header of core: it names the places where a process may die or linger"
#endif
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/claimer.h"
#include "core/slab.h"
#include "core/supervise.h"

namespace fastqps::stress {

// Small, so that every ring wraps and fills all the time.
inline constexpr u32 kDoors = 2, kDispatchers = 2, kSlots = 16, kTokens = 16, kWords = 16;
inline constexpr u32 kMade = 12;  // tokens of a generator's answer, at most
inline constexpr u64 kIds = 1 << 26;
inline constexpr u64 kPoisonEvery = 997;

// What happens in a run: a sum. Without kStops no wait has a timeout and no tick comes, so a lost wake-up is a hang.
enum Mode : u32 {
  kKillDispatchers = 1,
  kKillDoors = 2,
  kStops = 4,      // SIGSTOP, then SIGCONT or SIGKILL; and ticks
  kPoints = 8,     // those that may be killed die at named points
  kOneByOne = 16,  // one request at a time per front door: sleeps all the time
  kPoison = 32,    // some requests kill their dispatcher after launch
  kLinger = 64,    // linger at named points, as if descheduled there
  kCancels = 128,
  kWrap = 256,       // every counter starts just below its wrap-around
  kDeadlines = 512,  // some requests expire
  kDelay = 1024,     // dispatchers wait for company (the batch delay)
  kGenerate = 2048,  // stress_generator.h: tokens are read while they are made, and streams are stopped
  kLanes = 4096,     // dispatchers have two lanes: what comes while one runs goes to the other
};

enum Entry : u8 {
  kUnsent,
  kAccepted,
  kAnswered,
  kCancelled,
  kExpired,
  kInternal,
  kUnavailable,
  kGone,
  kStopped,
  kEntries
};
inline constexpr const char* kEntryNames[] = {
    "unsent", "LOST", "ok", "cancelled", "expired", "internal", "unavailable", "gone with their front door", "stopped"};

struct World {
  std::atomic<u32> stop;      // 1: front doors send no more; 2: dispatchers leave
  std::atomic<u32> finished;  // front doors that have nothing left
  std::atomic<u64> next_id, answers, wrong, twice, ticks, poison_deaths, ahead, suspects, requeued, lost_hints;
  std::atomic<u64> joined, streamed, begun;  // requests that joined others, tokens read before the end, streams begun
  std::atomic<u64> open[kDoors][kSlots];     // accepted and not answered, for the parent when a front door is killed
  std::atomic<u8> ledger[kIds];
};
inline World* world;
inline Segment segment;
inline WakeFds fds;
inline u32 mode;
inline bool threads;

struct Left {};  // threads only: thrown to "die"
inline thread_local bool mortal = false;
inline thread_local u32 random_state = 1;
inline u32 random_number() {
  u32& x = random_state;
  x ^= x << 13, x ^= x >> 17, x ^= x << 5;
  return x;
}
inline u64 mix(u64 x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}
inline void die_of_poison() {
  world->poison_deaths++;
  if (threads) throw Left();
  raise(SIGKILL);
}
inline bool is_canary(const Claim& claim) { return segment.sizes().is_canary(claim.slot); }
inline bool poisonous(u64 id) { return (mode & kPoison) && id % kPoisonEvery == 0; }
inline i64 timeout_ns() { return threads ? 0 : mode & kStops ? 20'000'000 : -1; }

// How many tokens a generator makes of it.
inline u32 tokens_of(u64 id) { return 1 + u32(mix(id) >> 8) % kMade; }
// A request is its id and words made of it; its answer is made of what the dispatcher found in the slot.
inline void fill(Slot& slot, u64 id) {
  u32* ids = segment.ids(slot);
  ids[0] = u32(id), ids[1] = u32(id >> 32);
  for (u32 i = 2; i < kTokens; i++) ids[i] = u32(mix(id) + i);
  slot.n_tokens.store(3 + u32(mix(id) >> 60), kRelaxed);
  slot.flags = id % 4 ? kProgress : 0;
  slot.sampling.seed = mix(id), slot.sampling.max_tokens = tokens_of(id);
  slot.deadline_ns = mode & kDeadlines && id % 7 == 0 ? now_ns() + (mix(id) >> 40 & 0x7ffff) : 0;
}
inline u64 id_of(Slot& slot) { return segment.ids(slot)[0] | u64(segment.ids(slot)[1]) << 32; }
inline void compute(Slot& slot) {
  u64* out = reinterpret_cast<u64*>(segment.answer(slot));
  u32* ids = segment.ids(slot);
  for (u32 i = 0; i < kWords; i++) out[1 + i] = mix(ids[i]);
  out[0] = id_of(slot);
  slot.status = 0, slot.kind = Answer::kRaw, slot.n_values = kWords;
}
inline bool answered_rightly(Slot& slot, u64 id) {
  const u64* out = reinterpret_cast<u64*>(segment.answer(slot));
  bool good = out[0] == id && slot.kind == Answer::kRaw && slot.n_values == kWords;
  for (u32 i = 0; i < kWords; i++)
    good &= out[1 + i] == mix(i == 0 ? u32(id) : i == 1 ? u32(id >> 32) : u32(mix(id) + i));
  return good;
}

// A segment with one model served by all dispatchers, and the ledger.
inline void make_world() {
  Sizes sizes{.doors = kDoors,
              .dispatchers = kDispatchers,
              .slots = kSlots,
              .max_tokens = kTokens,
              .answer_bytes = (1 + kWords) * sizeof(u64)};
  auto made = Segment::create(sizes);
  std::string error = made.error;
  if (made.fd >= 0) segment = Segment::attach(made.fd, &error);
  void* p = mmap(nullptr, sizeof(World), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!segment.valid() || p == MAP_FAILED) std::fprintf(stderr, "no memory: %s\n", error.c_str()), std::exit(2);
  world = static_cast<World*>(p);
  world->next_id = 1;
  segment.route(0).max_output_tokens = kMade;
  segment.route(0).dispatchers.store((1 << kDispatchers) - 1, kSeqCst);
  if (!(mode & kWrap)) return;
  auto near = [](RingLine& ring) { ring.head = ring.tail = ~u64(0) - 50; };
  for (u32 f = 0; f < kDoors; f++) {
    for (u32 kind = 0; kind < kClasses; kind++) near(segment.request_ring(f, 0, kind));
    for (u32 d = 0; d < kDispatchers; d++) near(segment.output_ring(d, f)), near(segment.control_ring(f, d));
    for (u32 i = 0; i < kSlots; i++) segment.slot(f, i).state = Word::make(State::kFree, ~u32(0) - 20).bits;
  }
}

// The closing account. False: something was lost, answered twice or wrongly, or left over.
inline bool report(double seconds, u32 dispatchers_killed, u32 doors_killed, u32 stops) {
  u64 n[kEntries] = {}, left = 0, ids = std::min(world->next_id.load(), kIds);
  for (u64 i = 1; i < ids; i++) n[world->ledger[i]]++;
  for (u32 f = 0; f < kDoors; f++)
    for (u32 i = 0; i < segment.sizes().all_slots(); i++)
      left += Word{segment.slot(f, i).state.load()}.state() != State::kFree;
  u64 canaries = 0;
  for (u32 f = 0; f < kDoors; f++)
    for (u32 d = 0; d < kDispatchers; d++) canaries += segment.door_stats(f).canaries[d];
  bool good = canaries && !world->wrong && !world->twice && !left && !n[kAccepted] && !n[kUnavailable] && n[kAnswered];
  if (mode & kGenerate) good &= world->joined && world->streamed && world->begun;  // else nothing was tested
  std::printf("%s: %.1f s;", good ? "GOOD" : "BAD", seconds);
  for (u32 i = kAccepted; i < kEntries; i++) std::printf(" %s %lu,", kEntryNames[i], n[i]);
  std::printf(" TWICE %lu, WRONG %lu, SLOTS LEFT %lu; killed %u dispatchers, %lu more by poison, %u front doors;",
              world->twice.load(), world->wrong.load(), left, dispatchers_killed, world->poison_deaths.load(),
              doors_killed);
  std::printf(" canaries %lu, joined %lu, streamed %lu, begun %lu;", canaries, world->joined.load(),
              world->streamed.load(), world->begun.load());
  std::printf(" stops %u, ticks %lu, ahead %lu, suspects %lu, requeued %lu, lost hints %lu\n", stops,
              world->ticks.load(), world->ahead.load(), world->suspects.load(), world->requeued.load(),
              world->lost_hints.load());
  return good;
}

}  // namespace fastqps::stress

inline void fastqps::point(int n) {
  using namespace fastqps::stress;
  if (threads) {
    if (mortal && random_number() % 4000 == 0) throw Left();
    if (random_number() % 64 == 0) std::this_thread::yield();
    return;
  }
  bool door = n >= 20;
  if ((mode & kLinger) && random_number() % 2000 == 0) usleep(random_number() % 3000);
  if ((mode & kPoints) && (mode & (door ? kKillDoors : kKillDispatchers)) &&
      random_number() % (door ? 20000 : 3000) == 0)
    raise(SIGKILL);
}
