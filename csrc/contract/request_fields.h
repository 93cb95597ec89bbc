// The fields and submessages of a PredictRequest, one reader each. For request_view.cpp alone.
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

inline bool read_output(std::string_view message, OutputOptions& out) {
  for (WireReader in(message); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return false;
    bool ok;
    switch (tag) {
      case varint_tag(1):
        ok = read_i32(in, &out.dtype);
        break;
      case varint_tag(2):
        ok = read_u32(in, &out.dimensions);
        break;
      case varint_tag(3):
        ok = out.has_normalize = read_bool(in, &out.normalize);
        break;
      case varint_tag(4):
        ok = read_u32(in, &out.top_labels);
        break;
      case varint_tag(5):
        ok = read_bool(in, &out.raw_scores);
        break;
      case varint_tag(6):
        ok = read_bool(in, &out.timings);
        break;
      case varint_tag(7):
        ok = read_i32(in, &out.aggregation);
        break;
      case varint_tag(8):
        ok = read_u32(in, &out.max_active_dims);
        break;
      default:
        ok = in.skip(tag, kPartDepth);
    }
    if (!ok) return false;
  }
  return true;
}

// Also called by the second pass, with functions that collect instead of counting.
template <class TakeStop, class TakeToken, class TakeSuppressed>
FieldError read_generate(std::string_view message, GenerateOptions& out, TakeStop take_stop, TakeToken take_token,
                         TakeSuppressed take_suppressed) {
  constexpr FieldError damaged{"generate", kDamaged};
  for (WireReader in(message); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return damaged;
    bool ok;
    switch (tag) {
      case varint_tag(1):
        ok = read_u32(in, &out.max_tokens);
        break;
      case fixed32_tag(2):
        ok = in.fixed32(&out.temperature);
        break;
      case varint_tag(3):
        ok = read_u32(in, &out.top_k);
        break;
      case fixed32_tag(4):
        ok = out.has_top_p = in.fixed32(&out.top_p);
        break;
      case varint_tag(5):
        ok = out.has_seed = in.varint(&out.seed);
        break;
      case length_tag(6): {
        std::string_view stop;
        if (const char* why = read_string(in, &stop)) return {"generate.stop", why};
        take_stop(stop);
        ok = true;
        break;
      }
      case varint_tag(7):
        ok = read_bool(in, &out.ignore_eos);
        break;
      case varint_tag(8):
        ok = read_bool(in, &out.logprobs);
        break;
      case varint_tag(9):
      case length_tag(9):
        ok = read_numbers(in, tag, take_token);
        break;
      case fixed32_tag(10):
        ok = out.has_repetition_penalty = in.fixed32(&out.repetition_penalty);
        break;
      case varint_tag(11):
        ok = out.has_no_repeat_ngram_size = read_u32(in, &out.no_repeat_ngram_size);
        break;
      case varint_tag(12):
        ok = out.has_min_tokens = read_u32(in, &out.min_tokens);
        break;
      case varint_tag(13):
      case length_tag(13):
        ok = read_numbers(in, tag, take_suppressed);
        break;
      case varint_tag(14):
        ok = read_bool(in, &out.add_special_tokens);
        break;
      default:
        ok = in.skip(tag, kPartDepth);
    }
    if (!ok) return damaged;
  }
  return {};
}

}  // namespace fastqps
