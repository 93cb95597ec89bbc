#include "json/call_options.h"

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

std::optional<FieldError> set_call_option(std::string_view name, const OptionValue& value, RequestView& view) {
  if (name == "priority") return FieldError{"priority", set_priority(value, view)};
  if (name == "timeout") return FieldError{"timeout", set_timeout(value, view)};
  if (name == "tenant") return FieldError{"tenant", to_text(value, &view.tenant)};
  if (name == "group") return FieldError{"group", to_text(value, &view.group)};
  return {};
}

}  // namespace fastqps::front
