// The options of a front door's service.
#pragma once
#include "contract/settings.h"
#include "service/tables/time_limits.h"

namespace fastqps::service {

struct PredictOptions {
  u32 door = 0;
  DoorSettings settings{};
  u64 kept_answer_bytes = 256 << 20;  // of answers that wait for others of their call, in the whole process

  TimeLimits times() const { return {settings.default_timeout_ns, settings.max_timeout_ns}; }
};

}  // namespace fastqps::service
