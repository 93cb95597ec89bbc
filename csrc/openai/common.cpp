#include "openai/common.h"

#include "json/call_options.h"

namespace fastqps::front {

FieldError read_common_field(std::string_view name, const simdjson::dom::element& element, RequestView& view,
                             ReasonText& reason) {
  if (element.is_null()) return {};  // clients send null for what is not set
  using Kind = OptionValue::Kind;
  const OptionValue value = option_value(element);
  const char* why = nullptr;
  if (name == "model") {
    if (value.kind != Kind::kString) return {"model", "must be a string"};
    view.model = value.text;
  } else if (name == "user") {
    if (value.kind != Kind::kString) return {"user", "must be a string"};
  } else if (const auto error = set_call_option(name, value, view)) {
    return *error;
  } else if (set_option(name, value, view, &why) == OptionSet::kUnknown) {
    return {"", reason.print("'%.*s' is not a field of this request", shown(name), name.data())};
  }
  return why ? FieldError{"", reason.print("%.*s %s", shown(name), name.data(), why)} : FieldError{};
}

std::string_view openai_field(std::string_view field, std::string_view input) {
  if (field == "text" || field == "token_ids" || field == "input" || field.starts_with("pair")) return input;
  return field.substr(field.rfind('.') + 1);  // output.dimensions, generate.top_p
}

}  // namespace fastqps::front
