// The clock of the current drain, and how many answers it has handed out.
#pragma once
#include "contract/types.h"

namespace fastqps::service {

struct TurnClock {
  u64 drain_ns = 0;
  u32 answers = 0;
};

}  // namespace fastqps::service
