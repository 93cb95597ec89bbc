#include "openai/common.h"

#include <algorithm>

namespace fastqps::front {

namespace {

using Kind = OptionValue::Kind;

const char* set_priority(const OptionValue& value, RequestView& view) {
  constexpr std::string_view kNames[] = {"low", "normal", "high"};  // fastqps.v1.Priority from 1 on
  const auto* found = std::find(std::begin(kNames), std::end(kNames), value.text);
  if (value.kind != Kind::kString || found == std::end(kNames)) return "must be low, normal or high";
  view.priority = i32(found - kNames) + 1;
  return nullptr;
}

const char* set_timeout(const OptionValue& value, RequestView& view) {
  constexpr float kLongest = 86400.0f * 365;
  float seconds;
  if (const char* why = to_float(value, &seconds)) return why;
  if (!(seconds > 0 && seconds <= kLongest)) return "must be a number of seconds above 0, at most a year";
  view.timeout_us = std::max<u64>(1, u64(double(seconds) * 1e6));
  return nullptr;
}

}  // namespace

FieldError read_common_field(std::string_view name, const simdjson::dom::element& element, RequestView& view,
                             ReasonText& reason) {
  if (element.is_null()) return {};  // clients send null for what is not set
  const OptionValue value = option_value(element);
  const auto shown = int(std::min<size_t>(name.size(), 60));
  const char* why = nullptr;
  if (name == "model") {
    if (value.kind != Kind::kString) return {"model", "must be a string"};
    view.model = value.text;
  } else if (name == "user") {
    if (value.kind != Kind::kString) return {"user", "must be a string"};
  } else if (name == "priority") {
    why = set_priority(value, view);
  } else if (name == "timeout") {
    why = set_timeout(value, view);
  } else if (set_option(name, value, view, &why) == OptionSet::kUnknown) {
    return {"", reason.print("'%.*s' is not a field of this request", shown, name.data())};
  }
  return why ? FieldError{"", reason.print("%.*s %s", shown, name.data(), why)} : FieldError{};
}

std::string_view model_name(const AnsweredCall& call) {
  return call.model_version.substr(0, call.model_version.rfind('@'));
}

std::string_view openai_field(std::string_view field, std::string_view input) {
  if (field == "text" || field == "token_ids" || field == "input" || field.starts_with("pair")) return input;
  return field.substr(field.rfind('.') + 1);  // output.dimensions, generate.top_p
}

}  // namespace fastqps::front
