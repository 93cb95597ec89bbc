#include "oip/parameters.h"

#include <algorithm>
#include <charconv>

namespace fastqps::front {

namespace {

using Kind = OptionValue::Kind;

// What clients send of themselves, and what says nothing here: sequences of a stateful model, the form of tensors.
constexpr std::string_view kIgnored[] = {"sequence_id",
                                         "sequence_start",
                                         "sequence_end",
                                         "binary_data_output",
                                         "binary_data",
                                         "binary_data_size",
                                         "triton_enable_empty_final_response"};

// As Triton numbers its levels: 0 is the default, 1 the highest.
const char* set_priority(const OptionValue& value, RequestView& view) {
  constexpr i32 kLow = 1, kNormal = 2, kHigh = 3;  // fastqps.v1.Priority
  u64 level;
  if (const char* why = to_u64(value, &level)) return why;
  view.priority = level == 0 ? 0 : level == 1 ? kHigh : level == 2 ? kNormal : kLow;
  return nullptr;
}

const char* set_datatype(const OptionValue& value, RequestView& view) {
  if (value.kind == Kind::kString && value.text == "FP32") return view.output.dtype = 1, nullptr;
  if (value.kind == Kind::kString && value.text == "FP16") return view.output.dtype = 2, nullptr;
  return "must be FP32 or FP16";
}

// A parameter has no array: several ids are a string, with commas between them.
OptionValue ids_of(std::string_view text, OptionLists& lists) {
  size_t n = 0;
  for (const char* at = text.data(); n < lists.elements.size();) {
    const char* const end = text.data() + text.size();
    u64 id = 0;
    const auto [behind, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (behind < end && *behind != ',')) return {};
    lists.elements[n++] = {.kind = Kind::kUint, .unsigned_integer = id};
    if (behind == end) break;
    at = behind + 1;
  }
  return {.kind = Kind::kList, .list = std::span(lists.elements).first(n)};
}

}  // namespace

FieldError set_tensor_parameter(std::string_view name, const OptionValue& value, const char* where,
                                TensorParameters& parameters, ReasonText& reason) {
  const char* why = nullptr;
  if (name == "binary_data_size") {
    why = to_u64(value, &parameters.binary_data_size.emplace());
  } else if (name == "binary_data") {
    why = to_bool(value, &parameters.binary_data.emplace());
  } else if (name == "classification") {
    why = "is not served: ask for the outputs scores and label";
  } else if (name.starts_with("shared_memory_")) {
    why = "is not served: send the contents in the message";
  }
  if (!why) return {};
  return {where, reason.print("%.*s %s", shown(name), name.data(), why)};
}

FieldError set_parameter(std::string_view name, const OptionValue& value, RequestView& view, OptionLists& lists,
                         ReasonText& reason) {
  const char* why = nullptr;
  if (name == "priority") {
    why = set_priority(value, view);
  } else if (name == "timeout") {
    why = to_u64(value, &view.timeout_us);
  } else if (name == "tenant") {
    why = to_text(value, &view.tenant);
  } else if (name == "group") {
    why = to_text(value, &view.group);
  } else if (name == "datatype") {
    why = set_datatype(value, view);
  } else if (std::find(std::begin(kIgnored), std::end(kIgnored), name) == std::end(kIgnored)) {
    const bool ids = name.ends_with("_token_ids") && value.kind == Kind::kString;
    const auto error = set_option(name, ids ? ids_of(value.text, lists) : value, view, lists);
    if (!error)
      return {"parameters", reason.print("'%.*s' is not a parameter of this server", shown(name), name.data())};
    why = error->reason;
  }
  if (!why) return {};
  return {"parameters", reason.print("%.*s %s", shown(name), name.data(), why)};
}

}  // namespace fastqps::front
