// The options of a request by name, for protocols that carry them as names and values.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "contract/request_view.h"

namespace fastqps::service {

// A value as its client sent it. A string is valid as long as the message.
struct OptionValue {
  enum class Kind : u8 { kOther, kBool, kInt, kUint, kDouble, kString, kList } kind = Kind::kOther;
  bool boolean = false;
  i64 integer = 0;
  u64 unsigned_integer = 0;
  double number = 0;
  std::string_view text = {};
  std::span<const OptionValue> list = {};
};

// What the lists among a request's options hold. The request's view refers to it.
struct OptionLists {
  static constexpr u32 kElementsMax = kTextsMax;       // of any list
  std::array<OptionValue, kElementsMax + 1> elements;  // of the value that is read: one more than may be
  std::array<std::string_view, kTextsMax> stops, choices;
  char unknown[64];  // the name of an option that there is not, for the error
};

// Conversions: why the value is refused, or nullptr.
const char* to_text(const OptionValue& value, std::string_view* out);
const char* to_bool(const OptionValue& value, bool* out);
const char* to_u64(const OptionValue& value, u64* out);
const char* to_u32(const OptionValue& value, u32* out);
const char* to_count(const OptionValue& value, u32* out);  // at least 1
const char* to_float(const OptionValue& value, float* out);
// The name of an aggregation of transformers' pipeline for token classification.
const char* to_aggregation(const OptionValue& value, i32* out);

// Sets one of the options that mean the same in every protocol: prompt_name, truncate, output_dtype, and the rows
// of contract/options.h with kByName. Nothing for any other name. The error's
// field is the option's name. A 0 that PredictRequest takes for "not given" is refused: here it was given.
std::optional<FieldError> set_option(std::string_view name, const OptionValue& value, RequestView& view,
                                     OptionLists& lists);

}  // namespace fastqps::service
