// A protobuf message declared as a list of fields of a few kinds: the list measures, writes and reads it.
#pragma once
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "contract/utf8.h"
#include "contract/wire.h"

namespace fastqps {

// ---- kinds of fields: how a value is written. Zeros and what is empty are left out.

// A u32 or bool.
struct Varint {
  static constexpr WireType kType = WireType::kVarint;
  static size_t size(u64 value) { return scalar_size(value); }
  static void write(WireWriter& out, u32 number, u64 value) { out.scalar(number, value); }
  template <class T>
  static bool read(WireReader& in, T& value) {
    u64 bits;
    if (!in.varint(&bits) || bits > ~u32(0)) return false;
    value = T(bits);
    return true;
  }
};

// A u32 or float.
struct Fixed32 {
  static constexpr WireType kType = WireType::kFixed32;
  template <class T>
  static size_t size(T value) {
    return float32_size(std::bit_cast<float>(value));
  }
  template <class T>
  static void write(WireWriter& out, u32 number, T value) {
    out.float32(number, std::bit_cast<float>(value));
  }
  template <class T>
  static bool read(WireReader& in, T& value) {
    float bits;
    if (!in.fixed32(&bits)) return false;
    value = std::bit_cast<T>(bits);
    return true;
  }
};

struct Fixed64 {
  static constexpr WireType kType = WireType::kFixed64;
  static size_t size(u64 value) { return float64_size(std::bit_cast<double>(value)); }
  static void write(WireWriter& out, u32 number, u64 value) { out.float64(number, std::bit_cast<double>(value)); }
  static bool read(WireReader& in, u64& value) {
    double bits;
    if (!in.fixed64(&bits)) return false;
    value = std::bit_cast<u64>(bits);
    return true;
  }
};

struct Bytes {
  static constexpr WireType kType = WireType::kLength;
  static size_t size(std::string_view bytes) { return bytes_size(bytes.size()); }
  static void write(WireWriter& out, u32 number, std::string_view bytes) { out.string(number, bytes); }
  static bool read(WireReader& in, std::string_view& bytes) { return in.bytes(&bytes); }
};

struct Text : Bytes {
  static bool read(WireReader& in, std::string_view& text) { return in.bytes(&text) && text::valid_utf8(text); }
};

// Numbers of a fixed size, in one piece.
struct Column {
  static constexpr WireType kType = WireType::kLength;
  template <class T>
  static size_t size(const std::vector<T>& column) {
    return bytes_size(column.size() * sizeof(T));
  }
  template <class T>
  static void write(WireWriter& out, u32 number, const std::vector<T>& column) {
    out.bytes(number, column.data(), column.size() * sizeof(T));
  }
  template <class T>
  static bool read(WireReader& in, std::vector<T>& column) {
    std::string_view packed;
    if (!in.bytes(&packed) || packed.size() % sizeof(T) || !column.empty()) return false;
    column.resize(packed.size() / sizeof(T));
    if (!packed.empty()) std::memcpy(column.data(), packed.data(), packed.size());
    return true;
  }
};

// ---- lists of fields

// A field of a message: its number, its kind, and the members that it is written from and read into.
template <u32 number, class Kind, auto... member>
struct Field {
  static constexpr u32 kTag = wire_tag(number, Kind::kType);
  template <class Message>
  static size_t size(const Message& message) {
    return Kind::size(message.*member...);
  }
  template <class Message>
  static void write(WireWriter& out, const Message& message) {
    Kind::write(out, number, message.*member...);
  }
  template <class Message>
  static bool read(WireReader& in, Message& message) {
    return Kind::read(in, message.*member...);
  }
};

// What to do with a field that is not in the list. One of a later protocol is skipped: hello says which it is.
inline bool skip(WireReader& in, u32 tag) { return in.skip(tag, kWireDepthMax); }
inline bool refuse(WireReader&, u32) { return false; }

template <class... Field>
struct Fields {
  template <class Message>
  static size_t size(const Message& message) {
    return (Field::size(message) + ...);
  }
  template <class Message>
  static void write(WireWriter& out, const Message& message) {
    (Field::write(out, message), ...);
  }
  // Reads what is in `bytes`, and leaves other members alone. Returns whether all of it is sound.
  template <class Message>
  static bool read(std::string_view bytes, Message& message, bool (*unknown)(WireReader&, u32) = skip) {
    for (WireReader in(bytes); !in.done();) {
      u32 tag;
      bool sound;
      if (!in.tag(&tag)) return false;
      const bool known = ((tag == Field::kTag && (sound = Field::read(in, message), true)) || ...);
      if (!(known ? sound : unknown(in, tag))) return false;
    }
    return true;
  }
};

}  // namespace fastqps
