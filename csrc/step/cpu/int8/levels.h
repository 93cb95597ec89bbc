// The compiled copies of the int8 product, one for each instruction set.
#pragma once
#include <vector>

#include "step/cpu/int8/product.h"

namespace fastqps::step {

// A part of a product: rows and outputs (of a gated product: of each half), from the first to the one before the end.
struct Part {
  u32 row, row_end, output, output_end;  // outputs are multiples of kInt8Multiple
};

struct Int8Kernels {
  const char* name;
  u32 lanes;  // outputs of a panel
  u32 zero;   // what is added to a quantised number of a row, so that it is unsigned; starts take it away again
  void (*multiply)(const Int8Product&, Part, float* scratch);
  // The int32 sums of the product alone, [n_rows, outputs]: for tests.
  void (*sums)(const Int8Product&, i32* out, float* scratch);
};

// Rows that are quantised together, and floats of scratch memory that they need.
inline constexpr u32 kInt8RowsTogether = 48;
inline u64 scratch_floats(const Int8Product& job) {
  return u64(kInt8RowsTogether) * (job.weight.inputs / 2 + 1);  // entries of 16 bits, and scales
}

// values [outputs, inputs], from -127 to 127, to `panels` (outputs * inputs bytes) and `starts`.
void pack_int8(const Int8Kernels& level, i8* panels, i32* starts, const i8* values, u32 outputs, u32 inputs);

// The levels that this machine can run, best first; the last is the baseline.
std::vector<const Int8Kernels*> int8_levels();
const Int8Kernels& chosen_int8();

namespace int8_baseline {
extern const Int8Kernels kInt8Kernels;
}
#if defined(__x86_64__)
namespace int8_avx2 {
extern const Int8Kernels kInt8Kernels;
}
namespace int8_avx_vnni {
extern const Int8Kernels kInt8Kernels;
}
namespace int8_avx512_vnni {
extern const Int8Kernels kInt8Kernels;
}
#endif

}  // namespace fastqps::step
