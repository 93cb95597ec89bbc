#include "protocols/json/text_input.h"

#include <limits>

namespace fastqps::protocols {

namespace {
constexpr const char *kForms = "must be a string, an array of strings, or an array of token ids",
                     *kStrings = "must be an array of strings",
                     *kEmptyArray = "an empty array, must have at least one element";
}  // namespace

void TextInput::clear() {
  given_ = false;
  items_.clear();
  ids_.clear();
}

FieldError TextInput::read(const GivenField& field) {
  clear();
  given_ = true;
  if (field.value.is_string()) return add_text(std::string_view(field.value)), FieldError{};
  if (!field.value.is_array()) return {field.name, kForms};
  return read_array(field, JsonArray(field.value));
}

FieldError TextInput::read_array(const GivenField& field, const JsonArray& values) {
  if (values.begin() == values.end()) return {field.name, kEmptyArray, FieldFault::kEmpty};
  const JsonValue first = *values.begin();
  if (first.is_int64() || first.is_uint64()) return read_ids(field, values);
  for (const JsonValue& value : values) {
    if (items_.size() == items_max_)
      return {field.name, field.reason.print("more than %u elements, which is the most", items_max_),
              FieldFault::kTooMany};
    if (value.is_string()) {
      add_text(std::string_view(value));
    } else if (value.is_array()) {
      if (const FieldError error = read_ids(field, JsonArray(value))) return error;
    } else {
      return {field.name,
              field.reason.print("element %zu is neither a string nor an array of token ids", items_.size())};
    }
  }
  return {};
}

FieldError TextInput::read_ids(const GivenField& field, const JsonArray& values) {
  const size_t from = ids_.size();
  for (const JsonValue& value : values) {
    i64 id;
    if (value.get(id)) return {field.name, "token ids must be integers below 2^32"};
    if (id < 0 || id > std::numeric_limits<u32>::max())
      return {field.name, field.reason.print("token id %lld, must be 0 or more and below 2^32", (long long)id)};
    ids_.push_back(u32(id));
  }
  items_.push_back({Input::kTokenIds, {}, from, ids_.size() - from});
  return {};
}

void TextInput::item(u32 index, RequestView& view) const {
  const Item& item = items_[index];
  view.input = item.kind;
  view.text = item.text;
  view.tokens = {ids_.data() + item.from, item.count};
  view.token_count = u32(item.count);
}

void TextList::clear() {
  given_ = is_array_ = false;
  texts_.clear();
}

FieldError TextList::read(const GivenField& field) {
  const bool documents = form_ == Form::kDocuments;
  texts_.clear();
  given_ = true;
  is_array_ = form_ != Form::kOneOrArray || !field.value.is_string();
  if (!is_array_) return texts_.assign(1, std::string_view(field.value)), FieldError{};
  JsonArray values;
  if (field.value.get(values))
    return {field.name, documents ? "must be an array of strings, or of objects with a text" : kStrings};
  for (const JsonValue& each : values) {
    if (texts_.size() == texts_max_)
      return {field.name, field.reason.print("more than %u %s, which is the most", texts_max_, noun()),
              FieldFault::kTooMany};
    std::string_view& text = texts_.emplace_back();
    if (!(documents && each.is_object() ? each["text"].get(text) : each.get(text))) continue;
    const char* wrong = documents ? "neither a string nor an object with a text" : "no string";
    return {field.name, field.reason.print("element %zu is %s", texts_.size() - 1, wrong)};
  }
  return {};
}

FieldError TextList::check(const char* name, ReasonText& reason) const {
  if (!given_) return {name, "must be given"};
  if (texts_.empty()) return {name, reason.print("0 %s, at least 1", noun()), FieldFault::kEmpty};
  return {};
}

}  // namespace fastqps::protocols
