// The slot's state word: seq:32 | epoch:20 | owner:8 | state:4, always changed as a whole by compare-and-swap.
//
// The word alone decides about a slot; every ring entry and every eventfd is only a hint to look at it. It names the
// owner of the slot's bytes: the front door while FREE, QUEUED or DONE, dispatcher `owner` of incarnation `epoch` while
// CLAIMED or LAUNCHED. `seq` grows at every QUEUED, so that an old ring entry can never claim a slot's next request.
#pragma once
#include "contract/types.h"

namespace fastqps {

enum class State : u32 { kFree = 0, kQueued = 1, kClaimed = 2, kLaunched = 3, kDone = 4 };

struct Word {
  u64 bits = 0;

  static constexpr Word make(State state, u32 seq, u32 owner = 0, u32 epoch = 0) {
    return {u64(seq) << 32 | u64(epoch & kEpochMask) << 12 | u64(owner & 0xff) << 4 | u64(state)};
  }
  constexpr State state() const { return State(bits & 15); }
  constexpr u32 owner() const { return u32(bits >> 4) & 0xff; }
  constexpr u32 epoch() const { return u32(bits >> 12) & kEpochMask; }
  constexpr u32 seq() const { return u32(bits >> 32); }

  static constexpr u32 kEpochMask = 0xfffff;
};
static_assert(sizeof(Word) == 8);

// A dispatcher's incarnations count from 1; 2^20 - 1 restarts of one dispatcher end the server rather than wrap.
inline constexpr u32 kEpochMax = Word::kEpochMask;

// Places where the native stress test lets a process die or linger; nothing in a product build.
#ifdef FASTQPS_POINTS
void point(int n);
#define FASTQPS_POINT(n) ::fastqps::point(n)
#else
#define FASTQPS_POINT(n) ((void)0)
#endif

}  // namespace fastqps
