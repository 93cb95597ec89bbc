// The form in which a request wants vectors: how many leading dimensions, of length 1 or not, in which dtype.
#pragma once
#include "core/layout.h"

namespace fastqps {

enum DType : u8 { kFloat32 = 1, kFloat16 = 2, kInt8 = 3 };  // fastqps.v1.DType; 0 means kFloat32

struct VectorForm {
  u32 dimensions;
  bool normalize;
  u8 dtype;

  VectorForm(const Route& route, const Slot& slot);
  // Of one vector.
  u64 bytes() const { return u64(dimensions) * value_bytes(dtype); }
  // Says in the slot how its values are to be read.
  void describe(Slot& slot) const;
};

// Whether none of the values is NaN or infinite.
bool all_finite(const float* values, u64 n);

// Writes the leading dimensions of `row`, bytes() in all.
void write_vector(const VectorForm& form, const float* row, u8* out);

}  // namespace fastqps
