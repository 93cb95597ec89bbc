// An input of a request, over gRPC and HTTP alike.
#pragma once
#include <string_view>
#include <vector>

#include "core/types.h"

namespace fastqps::front {

struct InputTensor {
  static constexpr u32 kDimensionsMax = 2;

  bool given = false;
  std::string_view datatype = {};
  u64 shape[kDimensionsMax] = {};
  u32 dimensions = 0;                        // may be above the most
  std::vector<std::string_view> texts = {};  // of BYTES
  std::vector<i64> numbers = {};             // of INT32 and INT64

  void clear();
  bool holds_text() const { return datatype == "BYTES"; }
  void add_dimension(u64 size) {
    if (dimensions < kDimensionsMax) shape[dimensions] = size;
    dimensions++;
  }
  // Reads raw contents: numbers in little-endian, strings behind their lengths of 4 bytes. Returns false if they end
  // inside an element. The contents of a datatype that no input has are not read.
  bool read_raw(std::string_view raw);
};

}  // namespace fastqps::front
