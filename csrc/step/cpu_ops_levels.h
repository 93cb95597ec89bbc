// The compiled copies of cpu_kernels.h, one for each instruction set.
#pragma once
#include "step/cpu_ops.h"

namespace fastqps::step {

// Columns of a head and rows of an item are padded to multiples of this in scratch memory.
inline constexpr u32 kColumns = 16;

namespace baseline {
void attend(const Attention& job, float* scratch);
}
#if defined(__x86_64__)
namespace avx2 {
void attend(const Attention& job, float* scratch);
}
namespace avx512 {
void attend(const Attention& job, float* scratch);
}
#endif

}  // namespace fastqps::step
