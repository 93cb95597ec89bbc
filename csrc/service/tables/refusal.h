// The status of an item that is not accepted or gets no answer, and how long an item may take until then.
#pragma once
#include <algorithm>
#include <string_view>

#include "contract/request_view.h"
#include "contract/status.h"
#include "contract/types.h"

namespace fastqps::service {

// The limit that an item's time comes from: the request's own timeout, --default-timeout, or --max-timeout.
enum class TimeBound : u8 { kOwn, kDefault, kMax };

// How long requests may take: the server's limits.
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

// The views are valid until the next refusal.
struct Refusal {
  StatusCode code = StatusCode::kOk;
  std::string_view message = {};
  std::string_view field = {};
  i32 retry_after_ms = -1;
  FieldFault fault = FieldFault::kValue;

  explicit operator bool() const { return code != StatusCode::kOk; }
  // Asks the client to try again after about this time, at most ten seconds.
  void retry_after_ns(u64 ns, u64 least_ms = 1) {
    retry_after_ms = i32(std::clamp<u64>(ns / 1'000'000, least_ms, 10'000));
  }
};

// Writes refusals into one buffer, so only one is valid at a time.
class RefusalWriter {
 public:
  explicit RefusalWriter(const TimeLimits& times) : times_(times) {}

  Refusal refuse(StatusCode code, const char* format, ...) __attribute__((format(printf, 3, 4)));
  // INVALID_ARGUMENT for a field of the request; the message begins with the field.
  Refusal refuse_field(const char* field, const char* format, ...) __attribute__((format(printf, 3, 4)));
  Refusal refuse(const FieldError& error);
  // DEADLINE_EXCEEDED: "the deadline passed at stage STAGE", and its limit.
  Refusal refuse_late(const char* stage, TimeBound bound, u64 length_ns);
  // The newest refusal, for lack of time, and the server's limit that the time comes from, if one; length_ns: from the
  // item's arrival to its end.
  Refusal name_limit(Refusal refusal, TimeBound bound, u64 length_ns);
  // INVALID_ARGUMENT: a call of more inputs than can be answered in its time; fit: how many can.
  Refusal refuse_inputs(u32 inputs, u64 fit, u64 time_ns, TimeBound bound);

 private:
  const TimeLimits times_;
  char text_[512];
};

}  // namespace fastqps::service
