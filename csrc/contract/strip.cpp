#include "contract/strip.h"

namespace fastqps {
namespace {

bool is_in(u32 point, std::string_view characters) {
  const u8* p = text::utf8_bytes(characters);
  for (const u8* const end = p + characters.size(); p < end;) {
    const text::Decoded each = text::decode(p, end);
    if (each.point == point) return true;
    p += each.n_bytes;
  }
  return false;
}

}  // namespace

std::string_view strip_begin(std::string_view text, std::string_view characters) {
  while (!text.empty() && !characters.empty()) {
    const u8* p = text::utf8_bytes(text);
    const text::Decoded first = text::decode(p, p + text.size());
    if (!is_in(first.point, characters)) break;
    text.remove_prefix(first.n_bytes);
  }
  return text;
}

std::string_view strip_end(std::string_view text, std::string_view characters) {
  while (!text.empty() && !characters.empty()) {
    const u8* p = text::utf8_bytes(text);
    const u32 last = text::decode_before(p, p + text.size());
    if (!is_in(last, characters)) break;
    u8 bytes[4];
    text.remove_suffix(text::encode_utf8(last, bytes));
  }
  return text;
}

}  // namespace fastqps
