// A protobuf message declared as a list of fields of a few kinds: the list measures, writes and reads it. This is the
// one reader of all messages whose fields are independent of one another.
#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "contract/request_view.h"
#include "contract/utf8.h"
#include "contract/wire.h"

namespace fastqps {

// ---- kinds of fields: how a value is written and read. Zeros and what is empty are left out. read() returns whether
// the bytes are sound, or a FieldError for a value that is refused.

// A u32 or bool. A value above 32 bits is refused.
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

// An integer, bool or enum. Signed ones are extended to 64 bits. Bits that it cannot hold are dropped, as protobuf
// does.
struct Integer {
  static constexpr WireType kType = WireType::kVarint;
  template <class T>
  static size_t size(T value) {
    return scalar_size(u64(i64(value)));
  }
  template <class T>
  static void write(WireWriter& out, u32 number, T value) {
    out.scalar(number, u64(i64(value)));
  }
  template <class T>
  static bool read(WireReader& in, T& value) {
    u64 bits;
    if (!in.varint(&bits)) return false;
    value = T(bits);
    return true;
  }
};

struct Bool {
  static constexpr WireType kType = WireType::kVarint;
  template <class T>
  static bool read(WireReader& in, T& value) {
    u64 bits;
    if (!in.varint(&bits)) return false;
    value = bits != 0;
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

// A u64 or double.
struct Fixed64 {
  static constexpr WireType kType = WireType::kFixed64;
  static size_t size(u64 value) { return float64_size(std::bit_cast<double>(value)); }
  static void write(WireWriter& out, u32 number, u64 value) { out.float64(number, std::bit_cast<double>(value)); }
  template <class T>
  static bool read(WireReader& in, T& value) {
    double bits;
    if (!in.fixed64(&bits)) return false;
    value = std::bit_cast<T>(bits);
    return true;
  }
};

struct Bytes {
  static constexpr WireType kType = WireType::kLength;
  static size_t size(std::string_view bytes) { return bytes_size(bytes.size()); }
  static void write(WireWriter& out, u32 number, std::string_view bytes) { out.string(number, bytes); }
  static bool read(WireReader& in, std::string_view& bytes) { return in.bytes(&bytes); }
};

// A text; the empty one is written, too.
struct GivenText : Bytes {
  static size_t size(std::string_view text) { return delimited_size(text.size()); }
  static void write(WireWriter& out, u32 number, std::string_view text) {
    out.head(number, text.size());
    out.raw(text.data(), text.size());
  }
};

struct Text : Bytes {
  static bool read(WireReader& in, std::string_view& text) { return in.bytes(&text) && text::valid_utf8(text); }
};

// A literal as an argument of a template.
template <size_t n>
struct FieldName {
  char text[n];
  constexpr FieldName(const char (&from)[n]) { std::copy_n(from, n, text); }
};

// A value whose error names the field.
template <FieldName name, class Kind>
struct Named : Kind {
  template <class T>
  static FieldError read(WireReader& in, T& value) {
    return Kind::read(in, value) ? FieldError{} : FieldError{name.text, kDamaged};
  }
};
template <FieldName name>
struct NamedText : Bytes {
  static FieldError read(WireReader& in, std::string_view& text) {
    if (!in.bytes(&text)) return {name.text, kDamaged};
    return text::valid_utf8(text) ? FieldError{} : FieldError{name.text, kNotUtf8};
  }
};

// Any number of values. Scalars come one by one or packed.
template <class Kind>
struct Repeated {
  static constexpr WireType kType = Kind::kType;
  static constexpr bool kPacks = kType != WireType::kLength;
  template <class Values>
  static size_t size(const Values& values) {
    size_t sum = 0;
    for (const auto& each : values) sum += Kind::size(each);
    return sum;
  }
  template <class Values>
  static void write(WireWriter& out, u32 number, const Values& values) {
    for (const auto& each : values) Kind::write(out, number, each);
  }
  template <class T>
  static auto read(WireReader& in, std::vector<T>& values) {
    return Kind::read(in, values.emplace_back());
  }
};

// Numbers of a fixed size, in one piece.
struct Column {
  static constexpr WireType kType = WireType::kLength;
  template <class Numbers>
  static size_t size(const Numbers& column) {
    return bytes_size(std::span(column).size_bytes());
  }
  template <class Numbers>
  static void write(WireWriter& out, u32 number, const Numbers& column) {
    out.bytes(number, column.data(), std::span(column).size_bytes());
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

// A field whose number is above 15: its tag has one byte more.
template <class Kind>
struct LongTag : Kind {
  template <class Values>
  static size_t size(const Values& values) {
    const size_t tags = requires { Kind::kPacks; }
    ? values.size() : !values.empty();
    return Kind::size(values) + tags;
  }
};

// Numbers of any size, in one piece.
struct Packed {
  static constexpr WireType kType = WireType::kLength;
  template <class Numbers>
  static size_t size(const Numbers& numbers) {
    return bytes_size(inside(numbers));
  }
  template <class Numbers>
  static void write(WireWriter& out, u32 field, const Numbers& numbers) {
    if (numbers.empty()) return;
    out.head(field, inside(numbers));
    for (const u64 number : numbers) out.varint(number);
  }

 private:
  template <class Numbers>
  static size_t inside(const Numbers& numbers) {
    size_t size = 0;
    for (const u64 number : numbers) size += varint_size(number);
    return size;
  }
};

// ---- lists of fields

// A field of a message: its number, its kind, and the members that it is written from and read into; without members,
// the message itself.
template <u32 number, class Kind, auto... member>
struct Field {
  static constexpr u32 kTag = wire_tag(number, Kind::kType);
  static constexpr bool kPacks = requires { requires Kind::kPacks; };
  static constexpr bool is(u32 tag) { return tag == kTag || (kPacks && tag == length_tag(number)); }

  template <class Message>
  [[gnu::always_inline]] static size_t size(const Message& message) {
    return with(message, [](const auto&... value) { return Kind::size(value...); });
  }
  template <class Message>
  [[gnu::always_inline]] static void write(WireWriter& out, const Message& message) {
    with(message, [&](const auto&... value) { Kind::write(out, number, value...); });
  }
  template <class Message>
  [[gnu::always_inline]] static auto read(WireReader& in, u32 tag, Message& message) {
    if constexpr (kPacks)
      if (tag != kTag) return read_packed(in, message);
    return with(message, [&](auto&... value) { return Kind::read(in, value...); });
  }

 private:
  template <class Message, class F>
  [[gnu::always_inline]] static auto with(Message& message, F f) {
    if constexpr (sizeof...(member) > 0)
      return f(message.*member...);
    else
      return f(message);
  }
  template <class Message>
  [[gnu::always_inline]] static bool read_packed(WireReader& in, Message& message) {
    std::string_view packed;
    if (!in.bytes(&packed)) return false;
    for (WireReader run(packed); !run.done();)
      if (!with(message, [&](auto&... value) { return Kind::read(run, value...); })) return false;
    return true;
  }
};

// A field whose bytes a member function of the message reads, such as a message of its own.
template <u32 number, auto read_part>
struct Part {
  static constexpr bool is(u32 tag) { return tag == length_tag(number); }
  template <class Message>
  static FieldError read(WireReader& in, u32, Message& message) {
    std::string_view part;
    return in.bytes(&part) ? (message.*read_part)(part) : FieldError{"", kDamaged};
  }
};

// What to do with a field that is not in the list. One of a later protocol is skipped: hello says which it is. inside:
// of a message in a message, which groups may nest one level less.
inline bool skip(WireReader& in, u32 tag) { return in.skip(tag, kWireDepthMax); }
inline bool skip_inside(WireReader& in, u32 tag) { return in.skip(tag, kWireDepthMax - 1); }
inline bool skip_twice_inside(WireReader& in, u32 tag) { return in.skip(tag, kWireDepthMax - 2); }
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
  // Reads what is in `bytes`, and leaves other members alone. Returns the first error; of damaged bytes its field is
  // `whole`, the message's own name.
  template <class Message>
  static FieldError parse(std::string_view bytes, Message& message, const char* whole = "",
                          bool (*unknown)(WireReader&, u32) = skip) {
    for (WireReader in(bytes); !in.done();) {
      u32 tag;
      FieldError error;
      if (!in.tag(&tag)) return {whole, kDamaged};
      const bool known = ((Field::is(tag) && (error = error_of(Field::read(in, tag, message), whole), true)) || ...);
      if (error) return error;
      if (!known && !unknown(in, tag)) return {whole, kDamaged};
    }
    return {};
  }
  // Returns whether all of it is sound.
  template <class Message>
  static bool read(std::string_view bytes, Message& message, bool (*unknown)(WireReader&, u32) = skip) {
    return !parse(bytes, message, "", unknown);
  }

 private:
  static FieldError error_of(bool sound, const char* whole) {
    return sound ? FieldError{} : FieldError{whole, kDamaged};
  }
  static FieldError error_of(FieldError error, const char* whole) {
    if (error && !(error.field && *error.field)) error.field = whole;
    return error;
  }
};

// A field that is a message of its own. It is written also where it is empty; by a pointer, unless that is null.
template <class Fields>
struct Submessage {
  static constexpr WireType kType = WireType::kLength;
  template <class Message>
  static size_t size(const Message& message) {
    return delimited_size(Fields::size(message));
  }
  template <class Message>
  static size_t size(const Message* message) {
    return message ? size(*message) : 0;
  }
  template <class Message>
  static void write(WireWriter& out, u32 number, const Message& message) {
    out.head(number, Fields::size(message));
    Fields::write(out, message);
  }
  template <class Message>
  static void write(WireWriter& out, u32 number, const Message* message) {
    if (message) write(out, number, *message);
  }
  template <class Message>
  static bool read(WireReader& in, Message& message) {
    std::string_view part;
    return in.bytes(&part) && Fields::read(part, message, skip_inside);
  }
};

}  // namespace fastqps
