// The stress test's generators: a dispatcher that keeps several requests LAUNCHED for many steps, and what a client
// notes of a stream while it reads along.
#pragma once
#include <cstring>
#include <vector>

#include "tests/core/stress_world.h"

namespace fastqps::stress {

inline constexpr u32 kRunning = 6;  // sequences of a dispatcher

// A token says which one it is of which request, and in which of its lives it was made: those of two lives are alike
// in earnest, which would hide that they were mixed.
inline u32 token_of(u64 seed, u32 at) { return u32(mix(seed + at)) << 8; }
inline TokenAnswer answer_of(Slot& slot) { return {segment.answer_room(slot), kMade, 0}; }
inline float logprob_of(u32 token) { return -float(token >> 8); }

struct Generator {
  struct Run {
    Claim claim;
    u32 made = 0;
  };
  Claimer claimer;
  std::vector<Run> runs = {};
  bool suspect_runs = false;

  void fenced() { world->wrong++, std::abort(); }
  void end(const Run& run, u16 status) {
    Slot& slot = claimer.slot(run.claim);
    slot.status = status;
    slot.kind = status ? Answer::kNone : Answer::kTokens;
    slot.finish = Finish::kLength;
    slot.n_values = run.made;
    if (!claimer.finish(run.claim)) fenced();
  }
  void drop(u32 door, u32 slot, u32 seq) {
    for (Run& run : runs)
      if (const Claim& c = run.claim; c.door == door && c.slot == slot && c.seq == seq) {
        end(run, 1);
        run = runs.back(), runs.pop_back();
        return;
      }
  }
  // Claims what can join, and ends what nobody wants any more.
  void gather(Batch& batch) {
    const bool idle = runs.empty();
    const BatchLimits room{.items = kRunning - u32(runs.size()), .tokens = 40};
    bool claimed = claimer.next(batch, idle ? ClaimMode::kFree : ClaimMode::kJoin, room, timeout_ns());
    claimer.read_controls(batch, [this](u32 door, u32 slot, u32 seq) { drop(door, slot, seq); });
    for (const auto& [claim, code] : batch.dropped) {
      if (!claimer.launch(claim)) fenced();
      end({claim}, u16(code));
    }
    if (!claimed) return;
    const size_t n = batch.claims.size();
    if (n > room.items || batch.n_tokens > room.tokens || suspect_runs || (batch.suspect && (!idle || n > 1)))
      world->wrong++;
    suspect_runs = batch.suspect && n;
    for (const Claim& c : batch.claims) {
      if (is_canary(c) && (!idle || n > 1 || !batch.canary)) world->wrong++;
      if (!claimer.launch(c)) fenced();
      runs.push_back({c});
    }
    if (!idle) world->joined += n;
  }
  // One step of the device: one more token of each.
  void step() {
    if (random_number() % 8 == 0) usleep(random_number() % 200);
    for (size_t at = 0; at < runs.size();) {
      Run& run = runs[at];
      Slot& slot = claimer.slot(run.claim);
      const u32 all = std::min(slot.sampling.max_tokens, kMade);
      if (!is_canary(run.claim) && poisonous(id_of(slot)) && run.made == mix(slot.sampling.seed) % all) die_of_poison();
      const u32 token = token_of(slot.sampling.seed, run.made) | (run.claim.seq & 0xff);
      answer_of(slot).write(run.made, {token, logprob_of(token)});
      run.made++;
      if (run.made == all) {
        end(run, 0);
        run = runs.back(), runs.pop_back();
        continue;
      }
      point(14);
      if (slot.flags & kProgress || run.made == 1) slot.n_made.store(run.made, kRelease);
      if (slot.flags & kProgress) claimer.progress(run.claim);
      at++;
    }
    claimer.publish();
    if (runs.empty()) suspect_runs = false;
  }
};

inline void generator(u32 me, u32 epoch) {
  Generator g{Claimer(segment, &fds, me, epoch, 0)};
  Batch batch;
  while (world->stop.load(kRelaxed) != 2) {
    g.gather(batch);
    g.step();
  }
}

// One request's stream, as its client sees it. What was read but not sent is held back: it could be a stop string's
// beginning.
struct Stream {
  u32 read = 0, sent = 0, life = 0;

  // Takes the tokens up to n. False: they are not this request's next ones, all of one life.
  bool take(Slot& slot, u64 id, u32 n) {
    if (n < read || n > tokens_of(id)) return false;
    for (; read < n; read++) {
      const u32 token = answer_of(slot).ids(read, 1)[0];
      const float logprob = answer_of(slot).logprobs(read, 1)[0];
      if (!read) life = token & 0xff;
      if (token != (token_of(mix(id), read) | life) || logprob != logprob_of(token)) return false;
    }
    return true;
  }
};

}  // namespace fastqps::stress
