// How long requests may take: the server's limits, and what they make of a request's own.
#pragma once
#include <algorithm>

#include "contract/types.h"

namespace fastqps::service {

// The limit that an item's time comes from: the request's own timeout, --default-timeout, or --max-timeout.
enum class TimeBound : u8 { kOwn, kDefault, kMax };

struct TimeLimits {
  u64 default_ns = 10'000'000'000;  // of a request that names no timeout; 0: no limit
  u64 max_ns = 600'000'000'000;     // of any request, and of a whole call; 0: no limit

  // The maximum is never less than the default.
  u64 most_ns() const { return default_ns && max_ns ? std::max(default_ns, max_ns) : 0; }
  // Whether the time of an item without a timeout is so long that it is its whole call's.
  bool bounds_call(u64 length_ns) const { return length_ns > default_ns && length_ns == most_ns(); }
};

// Until when an item is worth an answer; 0: for ever.
struct ItemTime {
  u64 due_ns = 0;   // moves on with every answer to another item of its call, if bound is kDefault
  u64 last_ns = 0;  // never later than this, and known to the dispatcher
  TimeBound bound = TimeBound::kOwn;
};

}  // namespace fastqps::service
