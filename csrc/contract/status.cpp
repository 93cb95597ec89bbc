#include "contract/status.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace fastqps {

namespace {

// The length of the code point at the start of text if it is valid UTF-8 (shortest form, no surrogates), else 0.
u32 utf8_length(std::string_view text) {
  const u8 first = u8(text[0]);
  if (first < 0x80) return 1;
  const u32 length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (u32 i = 1; i < length; i++)
    if ((u8(text[i]) & 0xc0) != 0x80) return 0;
  const u8 second = u8(text[1]);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return length;
}

bool plain(char c) { return c >= 0x20 && c <= 0x7e && c != '%'; }

// A protobuf message being written into a buffer that is known to be large enough.
class Writer {
 public:
  explicit Writer(char* out) : begin_(out), out_(out) {}
  void varint(u64 value) {
    for (; value >= 0x80; value >>= 7) *out_++ = char(value | 0x80);
    *out_++ = char(value);
  }
  void number(u32 field, u64 value) {
    if (value) varint(field << 3), varint(value);
  }
  void bytes(u32 field, std::string_view value) {
    varint(field << 3 | 2), varint(value.size());
    out_ = std::copy(value.begin(), value.end(), out_);
  }
  std::string_view view() const { return {begin_, size_t(out_ - begin_)}; }

 private:
  char *begin_, *out_;
};

constexpr u32 kDetailTextBytes = 192, kFieldBytes = 64;  // with these the details stay under kDetailsBytes

void write_any(Writer& status, std::string_view type, std::string_view value) {
  char buffer[512];
  Writer any(buffer);
  any.bytes(1, type);
  any.bytes(2, value);
  status.bytes(3, any.view());
}

// google.rpc.Duration inside google.rpc.RetryInfo.
void write_retry_info(Writer& status, u32 ms) {
  char duration_bytes[32], info_bytes[48];
  Writer duration(duration_bytes), info(info_bytes);
  duration.number(1, ms / 1000);
  duration.number(2, u64(ms % 1000) * 1'000'000);
  info.bytes(1, duration.view());
  write_any(status, "type.googleapis.com/google.rpc.RetryInfo", info.view());
}

void write_bad_request(Writer& status, std::string_view field, std::string_view description) {
  char violation_bytes[320], request_bytes[336], field_bytes[kFieldBytes];
  Writer violation(violation_bytes), request(request_bytes);
  violation.bytes(1, {field_bytes, clean_utf8(field, field_bytes, kFieldBytes, ~0u)});
  violation.bytes(2, description);
  request.bytes(1, violation.view());
  write_any(status, "type.googleapis.com/google.rpc.BadRequest", request.view());
}

}  // namespace

u32 clean_utf8(std::string_view text, char* out, u32 room, u32 encoded_room) {
  u32 written = 0, encoded = 0;
  while (!text.empty()) {
    const u32 length = utf8_length(text);
    const std::string_view point = length ? text.substr(0, length) : std::string_view("\xef\xbf\xbd");
    const u32 cost = point.size() == 1 && plain(point[0]) ? 1 : 3 * u32(point.size());
    if (written + point.size() > room || encoded + cost > encoded_room) break;
    std::memcpy(out + written, point.data(), point.size());
    written += u32(point.size()), encoded += cost;
    text.remove_prefix(length ? length : 1);
  }
  return written;
}

u32 percent_encode(std::string_view text, char* out) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  char* const begin = out;
  for (const char c : text) {
    if (plain(c)) {
      *out++ = c;
    } else {
      *out++ = '%', *out++ = kHex[u8(c) >> 4], *out++ = kHex[u8(c) & 15];
    }
  }
  return u32(out - begin);
}

u32 percent_decode(std::string_view text, char* out) {
  char* const begin = out;
  while (!text.empty()) {
    u8 byte = 0;
    const auto [end, error] =
        std::from_chars(text.data() + 1, text.data() + std::min<size_t>(3, text.size()), byte, 16);
    const bool encoded = text[0] == '%' && error == std::errc{} && end == text.data() + 3;
    *out++ = encoded ? char(byte) : text[0];
    text.remove_prefix(encoded ? 3 : 1);
  }
  return u32(out - begin);
}

u32 base64_encode(std::string_view bytes, char* out) {
  static constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char* const begin = out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const u32 n = u32(std::min<size_t>(3, bytes.size() - i));
    u32 group = u32(u8(bytes[i])) << 16;
    if (n > 1) group |= u32(u8(bytes[i + 1])) << 8;
    if (n > 2) group |= u8(bytes[i + 2]);
    for (u32 k = 0; k <= n; k++) *out++ = kAlphabet[group >> (18 - 6 * k) & 63];
  }
  return u32(out - begin);
}

EncodedStatus::EncodedStatus(const Status& status, i32 retry_ms) {
  code_bytes_ = u8(std::to_chars(code_, code_ + sizeof code_, u32(status.code)).ptr - code_);
  const bool detailed = retry_ms >= 0 || !status.field.empty();
  char text[kMessageBytes];
  // Clients compare the message in the details with the plain one, so both are cut at the same place.
  const u32 room = detailed ? kDetailTextBytes : kMessageBytes;
  const std::string_view message(text, clean_utf8(status.message, text, room, kMessageBytes));
  message_bytes_ = u16(percent_encode(message, message_));
  if (retry_ms >= 0)
    pushback_bytes_ = u8(std::to_chars(pushback_, pushback_ + sizeof pushback_, retry_ms).ptr - pushback_);
  if (!detailed) return;
  char bytes[kDetailsBytes * 3 / 4];
  Writer details(bytes);
  details.number(1, u32(status.code));
  details.bytes(2, message);
  if (retry_ms >= 0) write_retry_info(details, u32(retry_ms));
  if (!status.field.empty()) write_bad_request(details, status.field, message);
  details_bytes_ = u16(base64_encode(details.view(), details_));
}

}  // namespace fastqps
