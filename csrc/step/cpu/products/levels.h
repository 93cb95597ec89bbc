// The compiled copies of the products, one for each instruction set.
#pragma once
#include <vector>

#include "step/cpu/products/product.h"

namespace fastqps::step {

// A part of a product: rows and outputs (of a gated product: of each half), from the first to the one before the end.
struct Part {
  u32 row, row_end, output, output_end;  // `output` is a multiple of kPanelOutputs
};

// The product with one type of weights.
struct ProductKernels {
  u32 lanes;        // outputs of a panel
  u32 zero;         // added to a quantised number of a row, so that it is unsigned; starts take it away again
  u32 entry_bytes;  // of a number of a prepared row
  u32 rows_step;    // rows of a tile
  void (*multiply)(const Product&, Part, float* scratch);
  // The sums of the product alone, int32 or fp32 [n_rows, outputs, padded to kPanelOutputs]: for tests.
  void (*sums)(const Product&, void* out, float* scratch);
};

struct ProductLevel {
  const char* name;
  ProductKernels int8, bf16, f32;
  void (*refine)(const Product&, u32 row, u32 row_end);  // the largest products of the rows, by Weight::exact

  const ProductKernels& kernels(WeightType type) const {
    return type == WeightType::kInt8 ? int8 : type == WeightType::kBf16 ? bf16 : f32;
  }
};

// Entries of a prepared row: a line behind each keeps rows out of each other's cache sets.
inline u64 row_stride(const Weight& weight, u32 entry_bytes) {
  return u64(weight.words()) * (4 / bytes_of(weight.type)) + kPaddedBytes / entry_bytes;
}
// Rows that are prepared together, and floats of scratch memory that they need. With more, what a tile of all of them
// writes would lie on more pages than the first level of the TLB has.
inline constexpr u32 kRowsTogether = 48;
inline u64 scratch_floats(const Product& job, const ProductKernels& kernels) {
  return kRowsTogether * (row_stride(job.weight, kernels.entry_bytes) * kernels.entry_bytes / sizeof(float) + 1);
}

inline u64 padded_outputs(u64 outputs) { return (outputs + kPanelOutputs - 1) / kPanelOutputs * kPanelOutputs; }
u64 panel_bytes(const Weight& shape);
// `values` [outputs, inputs], int8 from -127 to 127, bf16 or fp32, to `panels` (panel_bytes, of zeros) and `starts` (of
// int8; else null).
void pack(const ProductLevel& level, const Weight& shape, u8* panels, i32* starts, const void* values);

// The levels that this machine can run, best first; the last is the baseline.
std::vector<const ProductLevel*> product_levels();
const ProductLevel& chosen_products();

namespace products_baseline {
extern const ProductLevel kLevel;
}
#if defined(__x86_64__)
namespace products_avx2 {
extern const ProductLevel kLevel;
}
namespace products_avx_vnni {
extern const ProductLevel kLevel;
}
namespace products_avx512 {
extern const ProductLevel kLevel;
}
namespace products_avx512_vnni {
extern const ProductLevel kLevel;
}
namespace products_avx512_bf16 {
extern const ProductLevel kLevel;
}
namespace products_amx {
extern const ProductLevel kLevel;
}
#endif

}  // namespace fastqps::step
