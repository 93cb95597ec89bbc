// The options of a request by name, for protocols that carry them as names and values.
#pragma once
#include <string_view>

#include "wire/request_view.h"

namespace fastqps::front {

// A value as its client sent it. A string is valid as long as the message.
struct OptionValue {
  enum class Kind : u8 { kOther, kBool, kInt, kUint, kDouble, kString } kind = Kind::kOther;
  bool boolean = false;
  i64 integer = 0;
  u64 unsigned_integer = 0;
  double number = 0;
  std::string_view text = {};
};

// Conversions: why the value is refused, or nullptr.
const char* to_text(const OptionValue& value, std::string_view* out);
const char* to_bool(const OptionValue& value, bool* out);
const char* to_u64(const OptionValue& value, u64* out);
const char* to_u32(const OptionValue& value, u32* out);
const char* to_float(const OptionValue& value, float* out);

enum class OptionSet : u8 { kUnknown, kDone, kRefused };

// Sets one of the options that mean the same in every protocol: prompt_name, truncate, dimensions, normalize,
// raw_scores, max_tokens, min_tokens, temperature, top_k, top_p, seed, ignore_eos, repetition_penalty and
// no_repeat_ngram_size. *why: the reason of a refusal.
OptionSet set_option(std::string_view name, const OptionValue& value, RequestView& view, const char** why);

}  // namespace fastqps::front
