// The status of an item that is not accepted or gets no answer.
#pragma once
#include <algorithm>
#include <string_view>

#include "contract/request_view.h"
#include "contract/status.h"
#include "service/tables/time_limits.h"

namespace fastqps::service {

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
