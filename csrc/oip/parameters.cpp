#include "oip/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace fastqps::front {

namespace {

using Kind = ParameterValue::Kind;

// Why a value is refused, or nullptr.
using Set = const char* (*)(const ParameterValue& value, RequestView& view);

const char* to_bool(const ParameterValue& value, bool* out) {
  if (value.kind != Kind::kBool) return "must be a bool";
  *out = value.boolean;
  return nullptr;
}

const char* to_u64(const ParameterValue& value, u64* out) {
  if (value.kind == Kind::kUint) return *out = value.unsigned_integer, nullptr;
  if (value.kind != Kind::kInt || value.integer < 0) return "must be an integer, 0 or more";
  *out = u64(value.integer);
  return nullptr;
}

const char* to_u32(const ParameterValue& value, u32* out) {
  u64 wide;
  if (const char* why = to_u64(value, &wide)) return why;
  if (wide > std::numeric_limits<u32>::max()) return "must be below 2^32";
  *out = u32(wide);
  return nullptr;
}

const char* to_float(const ParameterValue& value, float* out) {
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

// As Triton numbers its levels: 0 is the default, 1 the highest.
const char* priority(const ParameterValue& value, RequestView& view) {
  constexpr i32 kLow = 1, kNormal = 2, kHigh = 3;  // fastqps.v1.Priority
  u64 level;
  if (const char* why = to_u64(value, &level)) return why;
  view.priority = level == 0 ? 0 : level == 1 ? kHigh : level == 2 ? kNormal : kLow;
  return nullptr;
}

const char* datatype(const ParameterValue& value, RequestView& view) {
  if (value.kind == Kind::kString && value.text == "FP32") return view.output.dtype = 1, nullptr;
  if (value.kind == Kind::kString && value.text == "FP16") return view.output.dtype = 2, nullptr;
  return "must be FP32 or FP16";
}

const char* top_p(const ParameterValue& value, RequestView& view) {
  view.generate.has_top_p = true;
  return to_float(value, &view.generate.top_p);
}
const char* seed(const ParameterValue& value, RequestView& view) {
  view.generate.has_seed = true;
  return to_u64(value, &view.generate.seed);
}
const char* min_tokens(const ParameterValue& value, RequestView& view) {
  view.generate.has_min_tokens = true;
  return to_u32(value, &view.generate.min_tokens);
}
const char* repetition_penalty(const ParameterValue& value, RequestView& view) {
  view.generate.has_repetition_penalty = true;
  return to_float(value, &view.generate.repetition_penalty);
}
const char* no_repeat_ngram_size(const ParameterValue& value, RequestView& view) {
  view.generate.has_no_repeat_ngram_size = true;
  return to_u32(value, &view.generate.no_repeat_ngram_size);
}
const char* normalize(const ParameterValue& value, RequestView& view) {
  view.output.has_normalize = true;
  return to_bool(value, &view.output.normalize);
}
const char* stop(const ParameterValue& value, RequestView& view) {
  if (value.kind != Kind::kString) return "must be a string";
  view.generate.stop_count = 1;
  return nullptr;
}

struct Row {
  std::string_view name;
  Set set;
  bool generates = false;
};

constexpr Row kRows[] = {
    {"priority", priority},
    {"timeout", [](const ParameterValue& v, RequestView& view) { return to_u64(v, &view.timeout_us); }},
    {"truncate", [](const ParameterValue& v, RequestView& view) { return to_bool(v, &view.truncate); }},
    {"datatype", datatype},
    {"dimensions", [](const ParameterValue& v, RequestView& view) { return to_u32(v, &view.output.dimensions); }},
    {"normalize", normalize},
    {"raw_scores", [](const ParameterValue& v, RequestView& view) { return to_bool(v, &view.output.raw_scores); }},
    {"max_tokens", [](const ParameterValue& v, RequestView& view) { return to_u32(v, &view.generate.max_tokens); },
     true},
    {"min_tokens", min_tokens, true},
    {"temperature", [](const ParameterValue& v, RequestView& view) { return to_float(v, &view.generate.temperature); },
     true},
    {"top_k", [](const ParameterValue& v, RequestView& view) { return to_u32(v, &view.generate.top_k); }, true},
    {"top_p", top_p, true},
    {"seed", seed, true},
    {"stop", stop, true},
    {"ignore_eos", [](const ParameterValue& v, RequestView& view) { return to_bool(v, &view.generate.ignore_eos); },
     true},
    {"repetition_penalty", repetition_penalty, true},
    {"no_repeat_ngram_size", no_repeat_ngram_size, true},
};

// What clients send of themselves, and what says nothing here: sequences of a stateful model, the form of tensors.
constexpr std::string_view kIgnored[] = {"sequence_id",
                                         "sequence_start",
                                         "sequence_end",
                                         "binary_data_output",
                                         "binary_data",
                                         "binary_data_size",
                                         "triton_enable_empty_final_response"};

}  // namespace

FieldError set_parameter(std::string_view name, const ParameterValue& value, RequestView& view, std::string_view* stop,
                         ReasonText& reason) {
  const auto shown = int(std::min<size_t>(name.size(), 60));
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& each) { return each.name == name; });
  if (row == std::end(kRows)) {
    if (std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored)) return {};
    return {"parameters", reason.print("'%.*s' is not a parameter of this server", shown, name.data())};
  }
  if (const char* why = row->set(value, view)) return {"parameters", reason.print("%.*s %s", shown, name.data(), why)};
  view.has_generate |= row->generates;
  if (name == "stop") {
    *stop = value.text;
    view.stops = {stop, 1};
  }
  return {};
}

}  // namespace fastqps::front
