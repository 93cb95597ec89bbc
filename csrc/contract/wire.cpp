#include "contract/wire.h"

namespace fastqps {

bool WireReader::skip(u32 tag, int depth) {
  switch (WireType(tag & 7)) {
    case WireType::kVarint: {
      u64 ignored;
      return varint(&ignored);
    }
    case WireType::kFixed64:
      return skip_bytes(8);
    case WireType::kLength: {
      std::string_view ignored;
      return bytes(&ignored);
    }
    case WireType::kGroup:
      return skip_group(tag, depth);
    case WireType::kEndGroup:
      return false;  // ends a group that was never begun
    case WireType::kFixed32:
      return skip_bytes(4);
  }
  return false;
}

bool WireReader::skip_group(u32 start_tag, int depth) {
  if (depth <= 0) return false;
  const u32 end_tag = start_tag + 1;
  while (!done()) {
    u32 inner;
    if (!any_tag(&inner)) return false;  // in here, and only here, the runtime lets field number 0 pass
    if (inner == end_tag) return true;
    if (!skip(inner, depth - 1)) return false;
  }
  return false;
}

}  // namespace fastqps
