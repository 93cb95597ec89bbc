#include "contract/status.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "contract/fields.h"

namespace fastqps {

namespace {

bool plain(char c) { return c >= 0x20 && c <= 0x7e && c != '%'; }

constexpr u32 kDetailTextBytes = 192, kFieldBytes = 64;  // with these the details stay under kDetailsBytes

// google.rpc.RetryInfo, which is a google.protobuf.Duration.
struct RetryInfo {
  u32 seconds, nanoseconds;
};
using DurationFields = Fields<Field<1, Integer, &RetryInfo::seconds>, Field<2, Integer, &RetryInfo::nanoseconds>>;
using RetryInfoFields = Fields<Field<1, Submessage<DurationFields>>>;

// google.rpc.BadRequest, of one violation.
struct BadRequest {
  std::string_view field, description;
};
using ViolationFields = Fields<Field<1, GivenText, &BadRequest::field>, Field<2, GivenText, &BadRequest::description>>;
using BadRequestFields = Fields<Field<1, Submessage<ViolationFields>>>;

// A google.protobuf.Any among the details of a google.rpc.Status.
template <class Parts, class Detail>
void write_detail(WireWriter& status, std::string_view type, const Detail& detail) {
  const size_t size = Parts::size(detail);
  status.head(3, delimited_size(type.size()) + delimited_size(size));
  status.string(1, type);
  status.head(2, size);
  Parts::write(status, detail);
}

}  // namespace

u32 clean_utf8(std::string_view text, char* out, u32 room, u32 encoded_room) {
  u32 written = 0, encoded = 0;
  while (!text.empty()) {
    const u8* at = text::utf8_bytes(text);
    const u32 length = u32(text::utf8_length(at, at + text.size()));
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
  u8 bytes[kDetailsBytes * 3 / 4];
  WireWriter details(bytes);
  details.scalar(1, u32(status.code));
  GivenText::write(details, 2, message);
  if (retry_ms >= 0)
    write_detail<RetryInfoFields>(details, "type.googleapis.com/google.rpc.RetryInfo",
                                  RetryInfo{u32(retry_ms) / 1000, u32(retry_ms) % 1000 * 1'000'000});
  if (!status.field.empty()) {
    char field[kFieldBytes];
    write_detail<BadRequestFields>(details, "type.googleapis.com/google.rpc.BadRequest",
                                   BadRequest{{field, clean_utf8(status.field, field, kFieldBytes, ~0u)}, message});
  }
  details_bytes_ = u16(base64_encode({reinterpret_cast<const char*>(bytes), size_t(details.end() - bytes)}, details_));
}

}  // namespace fastqps
