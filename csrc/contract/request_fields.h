// The fields and submessages of a PredictRequest, one reader each, and the one of all options.
#pragma once
#include "contract/request_view.h"
#include "contract/utf8.h"
#include "contract/wire.h"

namespace fastqps {

// The levels of groups that are allowed in a PredictRequest itself and in its submessages.
inline constexpr int kRequestDepth = kWireDepthMax;
inline constexpr int kPartDepth = kWireDepthMax - 1;

// Reads a string field. Returns the reason why it cannot be, or null.
inline const char* read_string(WireReader& in, std::string_view* out) {
  if (!in.bytes(out)) return kDamaged;
  return text::valid_utf8(*out) ? nullptr : kNotUtf8;
}

inline bool read_u32(WireReader& in, u32* out) {
  u64 value;
  if (!in.varint(&value)) return false;
  *out = u32(value);
  return true;
}

inline bool read_i32(WireReader& in, i32* out) {
  u64 value;
  if (!in.varint(&value)) return false;
  *out = i32(u32(value));
  return true;
}

inline bool read_bool(WireReader& in, bool* out) {
  u64 value;
  if (!in.varint(&value)) return false;
  *out = value != 0;
  return true;
}

// Calls `take(u32)` for each number of a repeated uint32 field: one if `tag` says so, else a packed run.
template <class Take>
bool read_numbers(WireReader& in, u32 tag, Take take) {
  u64 value;
  if (WireType(tag & 7) == WireType::kVarint) {
    if (!in.varint(&value)) return false;
    take(u32(value));
    return true;
  }
  std::string_view packed;
  if (!in.bytes(&packed)) return false;
  for (WireReader run(packed); !run.done();) {
    if (!run.varint(&value)) return false;
    take(u32(value));
  }
  return true;
}

template <class Take>
bool read_token_ids(std::string_view message, Take take) {
  for (WireReader in(message); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return false;
    const bool ok =
        tag == varint_tag(1) || tag == length_tag(1) ? read_numbers(in, tag, take) : in.skip(tag, kPartDepth);
    if (!ok) return false;
  }
  return true;
}

inline FieldError read_pair(std::string_view message, RequestView& out) {
  for (WireReader in(message); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return {"pair", kDamaged};
    if (tag == length_tag(1)) {
      if (const char* why = read_string(in, &out.pair_first)) return {"pair.first", why};
    } else if (tag == length_tag(2)) {
      if (const char* why = read_string(in, &out.pair_second)) return {"pair.second", why};
    } else if (tag == varint_tag(3)) {
      if (!read_bool(in, &out.keep_second)) return {"pair.keep_second", kDamaged};
    } else if (!in.skip(tag, kPartDepth)) {
      return {"pair", kDamaged};
    }
  }
  return {};
}

// ---- options: how a value of each type is read. Each returns the reason why it cannot be, or null.

inline const char* read_value(WireReader& in, u32, u32& out) { return read_u32(in, &out) ? nullptr : kDamaged; }
inline const char* read_value(WireReader& in, u32, i32& out) { return read_i32(in, &out) ? nullptr : kDamaged; }
inline const char* read_value(WireReader& in, u32, u64& out) { return in.varint(&out) ? nullptr : kDamaged; }
inline const char* read_value(WireReader& in, u32, bool& out) { return read_bool(in, &out) ? nullptr : kDamaged; }
inline const char* read_value(WireReader& in, u32, std::optional<bool>& out) {
  return read_bool(in, &out.emplace()) ? nullptr : kDamaged;
}
inline const char* read_value(WireReader& in, u32, float& out) { return in.fixed32(&out) ? nullptr : kDamaged; }
inline const char* read_value(WireReader& in, u32 tag, IdList& out) {
  return read_numbers(in, tag, [&](u32 id) { out.add(id); }) ? nullptr : kDamaged;
}
inline const char* read_value(WireReader& in, u32, TextCount& out) {
  out.count++;
  std::string_view text;
  return read_string(in, &text);
}

template <class T>
constexpr bool is_tag_of(u32 tag, u32 number) {
  if constexpr (std::is_same_v<T, float>) return tag == fixed32_tag(number);
  if constexpr (std::is_same_v<T, TextCount>) return tag == length_tag(number);
  if constexpr (std::is_same_v<T, IdList>) return tag == varint_tag(number) || tag == length_tag(number);
  return tag == varint_tag(number);
}

// Reads the options that `rows` declare into `out`. `whole`: the message's own path. unknown: what to do with another
// field (skip_part or refuse, as in fields.h).
inline bool skip_part(WireReader& in, u32 tag) { return in.skip(tag, kPartDepth); }

template <const auto& rows, class Message>
FieldError read_options(std::string_view message, const char* whole, Message& out,
                        bool (*unknown)(WireReader&, u32) = skip_part) {
  for (WireReader in(message); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return {whole, kDamaged};
    FieldError error{whole, nullptr};
    const bool known = any_option(rows, [&](const auto& row) {
      using Value = typename std::decay_t<decltype(row)>::Value;
      if (!is_tag_of<Value>(tag, row.number)) return false;
      error.reason = read_value(in, tag, out.*row.member);
      if constexpr (std::is_same_v<Value, TextCount>) error.field = row.path;
      if constexpr (requires { out.set_given(row.number); })
        if (row.is(kOptional)) out.set_given(row.number);
      return true;
    });
    if (!known && !unknown(in, tag)) error.reason = kDamaged;
    if (error) return error;
  }
  return {};
}

}  // namespace fastqps
