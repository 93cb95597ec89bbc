#include "connection/protobuf.h"

namespace loadgen {
namespace {

size_t write_varint(u8* to, u64 value) {
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) to[n++] = u8(value) | 0x80;
  to[n++] = u8(value);
  return n;
}

// Reads from the front of `from`; false if that is no varint.
bool read_varint(std::string_view& from, u64& value) {
  value = 0;
  for (size_t i = 0; i < from.size() && i < 10; i++) {
    value |= u64(u8(from[i]) & 0x7f) << (7 * i);
    if (u8(from[i]) & 0x80) continue;
    from.remove_prefix(i + 1);
    return true;
  }
  return false;
}

struct Field {
  u64 number = 0, value = 0;  // the value of a varint
  bool is_varint = false, is_bytes = false;
  std::string_view bytes;
};

bool read_field(std::string_view& from, Field& field) {
  u64 tag, size = 0;
  field = {};
  if (!read_varint(from, tag)) return false;
  field.number = tag >> 3;
  switch (tag & 7) {
    case 0:
      field.is_varint = true;
      return read_varint(from, field.value);
    case 1:
      size = 8;
      break;
    case 2:
      field.is_bytes = true;
      if (!read_varint(from, size)) return false;
      break;
    case 5:
      size = 4;
      break;
    default:  // groups are not used by anything that speaks proto3
      return false;
  }
  if (size > from.size()) return false;
  field.bytes = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

}  // namespace

size_t write_varint_field(u8* to, u32 field, u64 value) {
  const size_t n = write_varint(to, u64(field) << 3);
  return n + write_varint(to + n, value);
}

std::optional<u64> find_varint(std::string_view message, std::span<const u32> path) {
  std::optional<u64> found;
  Field field;
  while (!message.empty()) {
    if (!read_field(message, field)) return {};
    if (field.number != path[0]) continue;
    if (path.size() == 1 && field.is_varint) found = field.value;
    if (path.size() > 1 && field.is_bytes)
      if (const auto inner = find_varint(field.bytes, path.subspan(1))) found = inner;
  }
  return found;
}

}  // namespace loadgen
