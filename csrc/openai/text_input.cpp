#include "openai/text_input.h"

#include <limits>

namespace fastqps::front {

using simdjson::dom::element_type;

void TextInput::clear() {
  given_ = false;
  texts_.clear();
  rows_.clear();
  ids_.clear();
}

FieldError TextInput::read(const simdjson::dom::element& value, ReasonText& reason) {
  clear();
  given_ = true;
  if (value.is_string()) return texts_.push_back(std::string_view(value)), FieldError{};
  if (!value.is_array()) return {field_, "must be a string, an array of strings, or an array of token ids"};
  return read_array(simdjson::dom::array(value), reason);
}

FieldError TextInput::read_array(const simdjson::dom::array& values, ReasonText& reason) {
  if (values.begin() == values.end()) return {field_, "an empty array, must have at least one element"};
  const simdjson::dom::element first = *values.begin();
  if (first.is_int64() || first.is_uint64()) return read_row(values, reason);
  size_t count = 0;
  for (const simdjson::dom::element& value : values) {
    if (++count > items_max_) return {field_, reason.print("more than %u elements, which is the most", items_max_)};
    if (value.type() != first.type()) return {field_, "an array of elements of different types"};
    if (value.is_string()) {
      texts_.push_back(std::string_view(value));
    } else if (value.is_array()) {
      if (const FieldError error = read_row(simdjson::dom::array(value), reason)) return error;
    } else {
      return {field_, "must be a string, an array of strings, or an array of token ids"};
    }
  }
  return {};
}

FieldError TextInput::read_row(const simdjson::dom::array& values, ReasonText& reason) {
  const size_t from = ids_.size();
  for (const simdjson::dom::element& value : values)
    if (const FieldError error = read_id(value, reason)) return error;
  rows_.push_back({from, ids_.size() - from});
  return {};
}

FieldError TextInput::read_id(const simdjson::dom::element& value, ReasonText& reason) {
  i64 id;
  if (value.get(id)) return {field_, "token ids must be integers below 2^32"};
  if (id < 0 || id > std::numeric_limits<u32>::max())
    return {field_, reason.print("token id %lld, must be 0 or more and below 2^32", (long long)id)};
  ids_.push_back(u32(id));
  return {};
}

void TextInput::item(u32 index, RequestView& view) const {
  if (!rows_.empty()) {
    view.input = Input::kTokenIds;
    view.tokens = {ids_.data() + rows_[index].from, rows_[index].count};
    view.token_count = u32(rows_[index].count);
  } else {
    view.input = Input::kText;
    view.text = texts_[index];
  }
}

}  // namespace fastqps::front
