// The next multiple of a number.
#pragma once
#include "contract/types.h"

namespace fastqps {

constexpr u64 round_up(u64 value, u64 to) { return (value + to - 1) / to * to; }

}  // namespace fastqps
