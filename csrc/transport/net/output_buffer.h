// Bytes on their way to the socket. Shared by all connections of a loop, so it stays in the cache.
#pragma once
#include <memory>

#include "contract/types.h"

namespace fastqps::transport {

struct OutputBuffer {
  static constexpr u32 kFull = 64 << 10;  // from here on it is written; more was slower
  std::unique_ptr<u8[]> data = std::make_unique<u8[]>(kFull + (32 << 10));
  u32 bytes = 0;
};

}  // namespace fastqps::transport
