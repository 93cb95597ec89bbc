#include "connection/protobuf.h"

#include "contract/wire.h"

namespace loadgen {

using fastqps::kWireDepthMax, fastqps::length_tag, fastqps::varint_tag;
using fastqps::WireReader, fastqps::WireWriter;

size_t write_varint_field(u8* to, u32 field, u64 value) {
  WireWriter writer(to);
  writer.varint(varint_tag(field));
  writer.varint(value);
  return size_t(writer.end() - to);
}

std::optional<u64> find_varint(std::string_view message, std::span<const u32> path) {
  std::optional<u64> found;
  WireReader reader(message);
  while (!reader.done()) {
    u32 tag;
    u64 value;
    std::string_view bytes;
    if (!reader.tag(&tag)) return {};
    if (path.size() == 1 && tag == varint_tag(path[0])) {
      if (!reader.varint(&value)) return {};
      found = value;
    } else if (path.size() > 1 && tag == length_tag(path[0])) {
      if (!reader.bytes(&bytes)) return {};
      if (const auto inner = find_varint(bytes, path.subspan(1))) found = inner;
    } else if (!reader.skip(tag, kWireDepthMax)) {
      return {};
    }
  }
  return found;
}

}  // namespace loadgen
