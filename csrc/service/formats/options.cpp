#include "service/formats/options.h"

#include <algorithm>
#include <limits>

namespace fastqps::service {

using Kind = OptionValue::Kind;

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

const char* to_count(const OptionValue& value, u32* out) {
  const char* why = to_u32(value, out);
  return why || *out ? why : "is 0, must be at least 1";
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

namespace {

using Set = const char* (*)(const OptionValue& value, RequestView& view, OptionLists& lists);

struct Row {
  std::string_view name;
  bool generates;
  Set set;
};

// 0, or -1 as vLLM has it: all.
const char* to_top_k(const OptionValue& value, u32* out) {
  if (value.kind == Kind::kInt && value.integer == -1) return *out = 0, nullptr;
  return to_u32(value, out);
}

// Signed ones, too, as OpenAI's API has them.
const char* to_seed(const OptionValue& value, u64* out) {
  if (value.kind == Kind::kInt) return *out = u64(value.integer), nullptr;
  return to_u64(value, out) ? "must be an integer of 64 bits" : nullptr;
}

// The value itself, or its elements.
std::span<const OptionValue> elements_of(const OptionValue& value) {
  return value.kind == Kind::kList ? value.list : std::span(&value, 1);
}

template <size_t kMost>
const char* to_ids(const OptionValue& value, std::array<u32, kMost>& room, std::span<const u32>* ids, u32* count) {
  static_assert(kMost == 8);
  const std::span<const OptionValue> elements = elements_of(value);
  if (elements.size() > kMost) return "has more than 8 ids";
  for (size_t i = 0; i < elements.size(); i++)
    if (to_u32(elements[i], &room[i])) return "must be an array of token ids";
  *ids = std::span(room).first(*count = u32(elements.size()));
  return nullptr;
}

const char* to_stops(const OptionValue& value, RequestView& view, OptionLists& lists) {
  static_assert(kStopStringsMax == 16);
  const std::span<const OptionValue> elements = elements_of(value);
  if (elements.size() > kStopStringsMax) return "has more than 16 strings";
  for (size_t i = 0; i < elements.size(); i++)
    if (to_text(elements[i], &lists.stops[i])) return "must be a string or an array of strings";
  view.stops = std::span(lists.stops).first(view.generate.stop_count = u32(elements.size()));
  return nullptr;
}

constexpr Row kRows[] = {
    {"prompt_name", false,
     [](const OptionValue& v, RequestView& view, OptionLists&) { return to_text(v, &view.prompt_name); }},
    {"truncate", false,
     [](const OptionValue& v, RequestView& view, OptionLists&) {
       return to_bool(v, &view.truncation.asked.emplace());
     }},
    {"dimensions", false,
     [](const OptionValue& v, RequestView& view, OptionLists&) { return to_count(v, &view.output.dimensions); }},
    {"normalize", false,
     [](const OptionValue& v, RequestView& view, OptionLists&) {
       view.output.has_normalize = true;
       return to_bool(v, &view.output.normalize);
     }},
    {"raw_scores", false,
     [](const OptionValue& v, RequestView& view, OptionLists&) { return to_bool(v, &view.output.raw_scores); }},
    {"max_tokens", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) { return to_count(v, &view.generate.max_tokens); }},
    {"min_tokens", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) {
       view.generate.has_min_tokens = true;
       return to_u32(v, &view.generate.min_tokens);
     }},
    {"temperature", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) { return to_float(v, &view.generate.temperature); }},
    {"top_k", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) { return to_top_k(v, &view.generate.top_k); }},
    {"top_p", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) {
       view.generate.has_top_p = true;
       return to_float(v, &view.generate.top_p);
     }},
    {"seed", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) {
       view.generate.has_seed = true;
       return to_seed(v, &view.generate.seed);
     }},
    {"ignore_eos", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) { return to_bool(v, &view.generate.ignore_eos); }},
    {"repetition_penalty", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) {
       view.generate.has_repetition_penalty = true;
       return to_float(v, &view.generate.repetition_penalty);
     }},
    {"no_repeat_ngram_size", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) {
       view.generate.has_no_repeat_ngram_size = true;
       return to_u32(v, &view.generate.no_repeat_ngram_size);
     }},
    {"add_special_tokens", true,
     [](const OptionValue& v, RequestView& view, OptionLists&) {
       return to_bool(v, &view.generate.add_special_tokens);
     }},
    {"stop", true, to_stops},
    {"stop_token_ids", true,
     [](const OptionValue& v, RequestView& view, OptionLists& lists) {
       return to_ids(v, lists.stop_tokens, &view.stop_tokens, &view.generate.stop_token_count);
     }},
    {"suppress_token_ids", true,
     [](const OptionValue& v, RequestView& view, OptionLists& lists) {
       return to_ids(v, lists.suppressed, &view.suppressed, &view.generate.suppress_token_count);
     }},
};

}  // namespace

std::optional<FieldError> set_option(std::string_view name, const OptionValue& value, RequestView& view,
                                     OptionLists& lists) {
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& each) { return each.name == name; });
  if (row == std::end(kRows)) return {};
  view.has_generate |= row->generates;
  return FieldError{row->name.data(), row->set(value, view, lists)};
}

}  // namespace fastqps::service
