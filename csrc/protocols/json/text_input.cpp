#include "protocols/json/text_input.h"

#include <limits>

namespace fastqps::protocols {

namespace {
constexpr const char* kForms = "must be a string, an array of strings, or an array of token ids";
}  // namespace

void TextInput::clear() {
  given_ = false;
  items_.clear();
  ids_.clear();
}

FieldError TextInput::read(const JsonValue& value, ReasonText& reason) {
  clear();
  given_ = true;
  if (value.is_string()) return add_text(std::string_view(value)), FieldError{};
  if (!value.is_array()) return {field_, kForms};
  return read_array(JsonArray(value), reason);
}

FieldError TextInput::read_array(const JsonArray& values, ReasonText& reason) {
  if (values.begin() == values.end())
    return {field_, "an empty array, must have at least one element", FieldFault::kEmpty};
  const JsonValue first = *values.begin();
  if (first.is_int64() || first.is_uint64()) return read_ids(values, reason);
  for (const JsonValue& value : values) {
    if (items_.size() == items_max_)
      return {field_, reason.print("more than %u elements, which is the most", items_max_), FieldFault::kTooMany};
    if (value.is_string()) {
      add_text(std::string_view(value));
    } else if (value.is_array()) {
      if (const FieldError error = read_ids(JsonArray(value), reason)) return error;
    } else {
      return {field_, reason.print("element %zu is neither a string nor an array of token ids", items_.size())};
    }
  }
  return {};
}

FieldError TextInput::read_ids(const JsonArray& values, ReasonText& reason) {
  const size_t from = ids_.size();
  for (const JsonValue& value : values)
    if (const FieldError error = read_id(value, reason)) return error;
  items_.push_back({Input::kTokenIds, {}, from, ids_.size() - from});
  return {};
}

FieldError TextInput::read_id(const JsonValue& value, ReasonText& reason) {
  i64 id;
  if (value.get(id)) return {field_, "token ids must be integers below 2^32"};
  if (id < 0 || id > std::numeric_limits<u32>::max())
    return {field_, reason.print("token id %lld, must be 0 or more and below 2^32", (long long)id)};
  ids_.push_back(u32(id));
  return {};
}

void TextInput::item(u32 index, RequestView& view) const {
  const Item& item = items_[index];
  view.input = item.kind;
  view.text = item.text;
  view.tokens = {ids_.data() + item.from, item.count};
  view.token_count = u32(item.count);
}

}  // namespace fastqps::protocols
