// How much one step computes, of whatever kind it is.
#pragma once
#include "core/types.h"

namespace fastqps {

struct StepSize {
  u32 items, tokens;  // of a decoder: runs and rows
  u32 new_items;      // items that no earlier step has seen: all of an encoder's
};

}  // namespace fastqps
