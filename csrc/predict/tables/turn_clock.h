// The clock of the current drain, and how many answers it has handed out.
#pragma once
#include "core/types.h"

namespace fastqps::front {

struct TurnClock {
  u64 drain_ns = 0;
  u32 answers = 0;
};

}  // namespace fastqps::front
