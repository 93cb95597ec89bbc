// The little of protobuf's wire format that is needed to put a number into a message and to find one again, without
// knowing the schema.
#pragma once
#include <optional>
#include <span>

#include "contract/wire.h"
#include "types.h"

namespace loadgen {

constexpr size_t kVarintFieldBytesMax = 15;  // a tag of a field number below 2**29, and a value

// Writes a varint field; the number of bytes. `to` has kVarintFieldBytesMax.
inline size_t write_varint_field(u8* to, u32 field, u64 value) {
  fastqps::WireWriter writer(to);
  writer.varint(fastqps::varint_tag(field));
  writer.varint(value);
  return size_t(writer.end() - to);
}

// The varint at a path of field numbers: all but the last are messages. The last one of a field holds, as in protobuf.
// Nothing if it is absent or the message is broken.
inline std::optional<u64> find_varint(std::string_view message, std::span<const u32> path) {
  std::optional<u64> found;
  fastqps::WireReader reader(message);
  while (!reader.done()) {
    u32 tag;
    u64 value;
    std::string_view bytes;
    if (!reader.tag(&tag)) return {};
    if (path.size() == 1 && tag == fastqps::varint_tag(path[0])) {
      if (!reader.varint(&value)) return {};
      found = value;
    } else if (path.size() > 1 && tag == fastqps::length_tag(path[0])) {
      if (!reader.bytes(&bytes)) return {};
      if (const auto inner = find_varint(bytes, path.subspan(1))) found = inner;
    } else if (!reader.skip(tag, fastqps::kWireDepthMax)) {
      return {};
    }
  }
  return found;
}

}  // namespace loadgen
