#include "tei/http/json_options.h"

#include "json/call_options.h"

namespace fastqps::front {

namespace {

FieldError read_flag(const char* field, const OptionValue& value, bool& flag) { return {field, to_bool(value, &flag)}; }

FieldError read_direction(const OptionValue& value, TruncationDirection& direction) {
  if (value.text == "Right" || value.text == "right") return direction = TruncationDirection::kRight, FieldError{};
  if (value.text == "Left" || value.text == "left") return direction = TruncationDirection::kLeft, FieldError{};
  return {"truncation_direction", "must be Left or Right"};
}

}  // namespace

FieldError read_json_option(std::string_view name, const simdjson::dom::element& element, JsonOptions& options) {
  if (element.is_null()) return {};  // clients send null for what is not set
  const OptionValue value = option_value(element);
  TextOptions& text = options.text;
  if (name == "truncate") return read_flag("truncate", value, text.truncation.asked.emplace());
  if (name == "normalize") return read_flag("normalize", value, text.normalize.emplace());
  if (name == "raw_scores") return read_flag("raw_scores", value, text.raw_scores);
  if (name == "return_text") return read_flag("return_text", value, options.return_text);
  if (name == "dimensions") return {"dimensions", to_u32(value, &text.dimensions.emplace())};
  if (name == "truncation_direction") return read_direction(value, text.direction);
  if (name == "model") return {"model", to_text(value, &text.model)};
  if (name == "prompt_name") return {"prompt_name", to_text(value, &text.prompt_name)};
  return set_call_option(name, value, options.base).value_or(FieldError{});
}

}  // namespace fastqps::front
