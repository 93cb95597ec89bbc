// The options of a front door's service.
#pragma once
#include <optional>

#include "contract/types.h"
#include "service/tables/tenants.h"
#include "service/tables/time_limits.h"

namespace fastqps::service {

struct PredictOptions {
  u32 door = 0;
  u32 max_stream_inflight = 1024;
  u32 max_request_items = 2048;
  TimeLimits times;
  u64 canary_interval_ns = 0;  // 0: none
  bool rerun = true;
  std::optional<bool> auto_truncate;  // as ModelRoutes takes it
  u64 kept_answer_bytes = 256 << 20;  // of answers that wait for others of their call, in the whole process
  TenantOptions tenants;
};

}  // namespace fastqps::service
