#include "transport/http/json_writer.h"

#include <array>
#include <cmath>

#include "third_party/zmij/zmij.h"

namespace fastqps::transport {

namespace {

constexpr char kHex[] = "0123456789abcdef";

// The letter behind a backslash for each byte; 0: written as it is; 'u': \u00XX.
constexpr std::array<char, 256> kEscapes = [] {
  std::array<char, 256> table{};
  for (int c = 0; c < 0x20; c++) table[c] = 'u';
  table['\b'] = 'b', table['\f'] = 'f', table['\n'] = 'n', table['\r'] = 'r', table['\t'] = 't';
  table['"'] = '"', table['\\'] = '\\';
  return table;
}();

// Two characters for each 12 bits.
constexpr std::array<char, 2 * 4096> kBase64 = [] {
  constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<char, 2 * 4096> table{};
  for (int i = 0; i < 4096; i++) table[2 * i] = alphabet[i >> 6], table[2 * i + 1] = alphabet[i & 63];
  return table;
}();

}  // namespace

JsonWriter& JsonWriter::string(std::string_view text) {
  *at_++ = '"';
  for (const char c : text) {
    const char escape = kEscapes[u8(c)];
    if (!escape) {
      *at_++ = c;
      continue;
    }
    *at_++ = '\\', *at_++ = escape;
    if (escape == 'u') *at_++ = '0', *at_++ = '0', *at_++ = kHex[u8(c) >> 4], *at_++ = kHex[c & 15];
  }
  *at_++ = '"';
  return *this;
}

JsonWriter& JsonWriter::number(float value) {
  static_assert(kFloatBytes == zmij::float_buffer_size);
  if (!std::isfinite(value)) return raw("null");
  at_ = zmij::write(at_, kFloatBytes, value);
  return *this;
}

JsonWriter& JsonWriter::elements(std::span<const float> values) {
  for (const float value : values) {
    number(value);
    *at_++ = ',';
  }
  if (!values.empty()) at_--;
  return *this;
}

JsonWriter& JsonWriter::rows(std::span<const float> values, size_t columns) {
  raw("[");
  for (size_t at = 0; at < values.size(); at += columns) raw(at ? "," : "").floats(values.subspan(at, columns));
  return raw("]");
}

JsonWriter& JsonWriter::base64(std::span<const u8> bytes) {
  *at_++ = '"';
  const u8* in = bytes.data();
  size_t left = bytes.size();
  for (; left >= 3; in += 3, left -= 3) {
    const u32 group = u32(in[0]) << 16 | u32(in[1]) << 8 | in[2];
    std::memcpy(at_, &kBase64[2 * (group >> 12)], 2);
    std::memcpy(at_ + 2, &kBase64[2 * (group & 0xfff)], 2);
    at_ += 4;
  }
  if (left) {
    const u32 group = u32(in[0]) << 16 | (left == 2 ? u32(in[1]) << 8 : 0);
    std::memcpy(at_, &kBase64[2 * (group >> 12)], 2);
    at_[2] = left == 2 ? kBase64[2 * (group & 0xfff)] : '=';
    at_[3] = '=';
    at_ += 4;
  }
  *at_++ = '"';
  return *this;
}

JsonWriter& JsonWriter::bytes(std::span<const u8> bytes, bool is_signed) {
  for (size_t i = 0; i < bytes.size(); i++) {
    if (i) *at_++ = ',';
    at_ = std::to_chars(at_, at_ + 4, is_signed ? int(i8(bytes[i])) : int(bytes[i])).ptr;
  }
  return *this;
}

}  // namespace fastqps::transport
