// The size of one step of any kind.
#pragma once
#include "contract/types.h"

namespace fastqps {

struct StepSize {
  u32 items, tokens;  // of a decoder: runs and rows
  u32 new_items;      // items that were in no earlier step; all of an encoder's
};

}  // namespace fastqps
