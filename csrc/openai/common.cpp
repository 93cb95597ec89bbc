#include "openai/common.h"

#include <cstdio>

#include "json/call_options.h"

namespace fastqps::front {

FieldError read_common_field(std::string_view name, const simdjson::dom::element& element, RequestView& view,
                             OptionLists& lists) {
  if (element.is_null()) return {};  // clients send null for what is not set
  const OptionValue value = option_value(element, lists);
  std::string_view user;
  if (name == "model") return {"model", to_text(value, &view.model)};
  if (name == "user") return {"user", to_text(value, &user)};
  if (const auto error = set_call_option(name, value, view)) return *error;
  if (const auto error = set_option(name, value, view, lists)) return *error;
  std::snprintf(lists.unknown, sizeof lists.unknown, "%.*s", shown(name), name.data());
  return {lists.unknown, "is not a field of this request"};
}

std::string_view openai_field(std::string_view field, std::string_view input) {
  if (field == "text" || field == "token_ids" || field == "input" || field.starts_with("pair")) return input;
  return field.substr(field.rfind('.') + 1);  // output.dimensions, generate.top_p
}

}  // namespace fastqps::front
