#include "predict/formats/options.h"

#include <algorithm>
#include <limits>

namespace fastqps::front {

namespace {

using Kind = OptionValue::Kind;
using Set = const char* (*)(const OptionValue& value, RequestView& view);

struct Row {
  std::string_view name;
  bool generates;
  Set set;
};

constexpr Row kRows[] = {
    {"prompt_name", false, [](const OptionValue& v, RequestView& view) { return to_text(v, &view.prompt_name); }},
    {"truncate", false, [](const OptionValue& v, RequestView& view) { return to_bool(v, &view.truncate); }},
    {"dimensions", false, [](const OptionValue& v, RequestView& view) { return to_u32(v, &view.output.dimensions); }},
    {"normalize", false,
     [](const OptionValue& v, RequestView& view) {
       view.output.has_normalize = true;
       return to_bool(v, &view.output.normalize);
     }},
    {"raw_scores", false, [](const OptionValue& v, RequestView& view) { return to_bool(v, &view.output.raw_scores); }},
    {"max_tokens", true, [](const OptionValue& v, RequestView& view) { return to_u32(v, &view.generate.max_tokens); }},
    {"min_tokens", true,
     [](const OptionValue& v, RequestView& view) {
       view.generate.has_min_tokens = true;
       return to_u32(v, &view.generate.min_tokens);
     }},
    {"temperature", true,
     [](const OptionValue& v, RequestView& view) { return to_float(v, &view.generate.temperature); }},
    {"top_k", true, [](const OptionValue& v, RequestView& view) { return to_u32(v, &view.generate.top_k); }},
    {"top_p", true,
     [](const OptionValue& v, RequestView& view) {
       view.generate.has_top_p = true;
       return to_float(v, &view.generate.top_p);
     }},
    {"seed", true,
     [](const OptionValue& v, RequestView& view) {
       view.generate.has_seed = true;
       return to_u64(v, &view.generate.seed);
     }},
    {"ignore_eos", true, [](const OptionValue& v, RequestView& view) { return to_bool(v, &view.generate.ignore_eos); }},
    {"repetition_penalty", true,
     [](const OptionValue& v, RequestView& view) {
       view.generate.has_repetition_penalty = true;
       return to_float(v, &view.generate.repetition_penalty);
     }},
    {"no_repeat_ngram_size", true,
     [](const OptionValue& v, RequestView& view) {
       view.generate.has_no_repeat_ngram_size = true;
       return to_u32(v, &view.generate.no_repeat_ngram_size);
     }},
};

}  // namespace

const char* to_text(const OptionValue& value, std::string_view* out) {
  if (value.kind != Kind::kString) return "must be a string";
  *out = value.text;
  return nullptr;
}

const char* to_bool(const OptionValue& value, bool* out) {
  if (value.kind != Kind::kBool) return "must be a bool";
  *out = value.boolean;
  return nullptr;
}

const char* to_u64(const OptionValue& value, u64* out) {
  if (value.kind == Kind::kUint) return *out = value.unsigned_integer, nullptr;
  if (value.kind != Kind::kInt || value.integer < 0) return "must be an integer, 0 or more";
  *out = u64(value.integer);
  return nullptr;
}

const char* to_u32(const OptionValue& value, u32* out) {
  u64 wide;
  if (const char* why = to_u64(value, &wide)) return why;
  if (wide > std::numeric_limits<u32>::max()) return "must be below 2^32";
  *out = u32(wide);
  return nullptr;
}

const char* to_float(const OptionValue& value, float* out) {
  switch (value.kind) {
    case Kind::kDouble:
      return *out = float(value.number), nullptr;
    case Kind::kInt:
      return *out = float(value.integer), nullptr;
    case Kind::kUint:
      return *out = float(value.unsigned_integer), nullptr;
    default:
      return "must be a number";
  }
}

OptionSet set_option(std::string_view name, const OptionValue& value, RequestView& view, const char** why) {
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& each) { return each.name == name; });
  if (row == std::end(kRows)) return OptionSet::kUnknown;
  *why = row->set(value, view);
  view.has_generate |= row->generates;
  return *why ? OptionSet::kRefused : OptionSet::kDone;
}

}  // namespace fastqps::front
