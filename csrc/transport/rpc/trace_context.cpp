#include "transport/rpc/trace_context.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace fastqps::transport {

namespace {

// version "-" trace-id "-" parent-id "-" flags
constexpr size_t kTraceAt = 3, kParentAt = 36, kFlagsAt = 53, kBytes = 55;
constexpr u8 kBad = 0xff, kSampled = 1;

// Upper-case digits are not allowed.
constexpr std::array<u8, 256> make_digits() {
  std::array<u8, 256> digits{};
  for (u8& digit : digits) digit = kBad;
  for (u8 i = 0; i < 10; i++) digits['0' + i] = i;
  for (u8 i = 0; i < 6; i++) digits['a' + i] = u8(10 + i);
  return digits;
}
constexpr std::array<u8, 256> kDigits = make_digits();

bool read_hex(std::string_view text, u8* out) {
  u8 bad = 0;
  for (size_t i = 0; i < text.size(); i += 2) {
    const u8 high = kDigits[u8(text[i])], low = kDigits[u8(text[i + 1])];
    bad |= high | low;
    *out++ = u8(high << 4 | (low & 15));
  }
  return bad != kBad && !(bad & 0xf0);
}

bool all_zero(const u8* bytes, size_t n) {
  return std::all_of(bytes, bytes + n, [](u8 byte) { return byte == 0; });
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// What may be said again: printable, with a key and a value.
bool good_member(std::string_view member) {
  const size_t equals = member.find('=');
  return equals != member.npos && equals > 0 && equals + 1 < member.size() &&
         std::all_of(member.begin(), member.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace

bool parse_traceparent(std::string_view value, TraceContext* out) {
  if (value.size() < kBytes || value[2] != '-' || value[kParentAt - 1] != '-' || value[kFlagsAt - 1] != '-')
    return false;
  u8 version, flags;
  if (!read_hex(value.substr(0, 2), &version) || version == 0xff) return false;
  // A later version may go on behind another dash; ours may not.
  if (value.size() > kBytes && (version == 0 || value[kBytes] != '-')) return false;
  if (!read_hex(value.substr(kTraceAt, 32), out->trace_id) || all_zero(out->trace_id, 16)) return false;
  if (!read_hex(value.substr(kParentAt, 16), out->parent_id) || all_zero(out->parent_id, 8)) return false;
  if (!read_hex(value.substr(kFlagsAt, 2), &flags)) return false;
  out->sampled = flags & kSampled;
  return true;
}

u32 append_tracestate(std::string_view value, char* out, u32 bytes, u32 room) {
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    const std::string_view member = trimmed(value.substr(0, comma));
    value.remove_prefix(std::min(comma + 1, value.size()));
    if (!good_member(member)) continue;
    const size_t size = member.size() + (bytes > 0);
    if (bytes + size > room) return bytes;
    if (bytes) out[bytes++] = ',';
    std::memcpy(out + bytes, member.data(), member.size());
    bytes += u32(member.size());
  }
  return bytes;
}

}  // namespace fastqps::transport
