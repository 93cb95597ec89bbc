#include "protocols/json/fields_reader.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "core/clock.h"

namespace fastqps::protocols {

std::optional<size_t> find_word(std::string_view word, Words words) {
  const auto* found = std::ranges::find(words, word);
  return word.empty() || found == words.end() ? std::nullopt : std::optional(size_t(found - words.begin()));
}

FieldError refuse_word(const GivenField& field, Words words) {
  std::string all;
  for (const std::string_view& each : words)
    all.append(all.empty() ? "" : &each + 1 == words.end() ? " or " : ", ").append(each);
  return {field.name, field.reason.print("must be %s", all.c_str())};
}

namespace {
std::string_view last_part(const FieldRow& row) { return row.name.substr(row.name.rfind('.') + 1); }
constexpr std::string_view kIgnored[] = {"service_tier", "metadata", "store", "safety_identifier", "prompt_cache_key"};
}  // namespace

bool IgnoredFields::take(std::string_view name) {
  const auto* found = std::ranges::find(kIgnored, name);
  if (found == std::end(kIgnored)) return false;
  bits_ |= u8(1 << (found - kIgnored));
  return true;
}

std::string_view IgnoredFields::names(char letter) {
  constexpr size_t kSets = 1 << std::size(kIgnored);
  static const auto all = [] {
    std::array<std::string, kSets> sets;
    for (size_t set = 0; set < kSets; set++)
      for (size_t i = 0; i < std::size(kIgnored); i++)
        if (set >> i & 1) sets[set].append(sets[set].empty() ? "" : ", ").append(kIgnored[i]);
    return sets;
  }();
  return all[size_t(letter - '@') % kSets];
}

FieldError FieldsReader::read_body(const JsonObject& body, const transport::CallInfo& info, ReasonText& reason) {
  begin(api_.defaults);
  const FieldError error = read_fields(body, reason);
  return error ? error : check(info, reason);
}

FieldError FieldsReader::read_parts(const GivenField& field, FieldRows rows) {
  JsonObject parts;
  if (field.value.get(parts)) return {field.name, "must be an object"};
  for (const auto [name, value] : parts) {
    if (value.is_null()) continue;
    const auto row = std::ranges::find(rows, name, last_part);
    if (row == rows.end()) {
      if (api_.unknown == JsonApi::Unknown::kIgnored) continue;
      std::string all;
      for (const FieldRow& each : rows) all.append(all.empty() ? "" : ", ").append(last_part(each));
      return {field.name, field.reason.print("'%.*s' is none of %s", shown(name), name.data(), all.c_str())};
    }
    if (const FieldError error = row->read(*this, {row->name.data(), value, field.reason})) return error;
  }
  return {};
}

void FieldsReader::begin(const JsonOptions& options) {
  options_ = options;
  ignored_.clear();
  clear();
}

FieldError FieldsReader::read_fields(const JsonObject& body, ReasonText& reason) {
  for (const auto [name, value] : body)
    if (const FieldError error = read_field(name, value, reason)) return error;
  return {};
}

FieldError FieldsReader::read_field(std::string_view name, const JsonValue& value, ReasonText& reason) {
  return read_at(Where::kBody, name, value, reason);
}

FieldError FieldsReader::read_options(const JsonObject& options, ReasonText& reason) {
  for (const auto [name, value] : options)
    if (const FieldError error = read_at(Where::kOptions, name, value, reason)) return error;
  return {};
}

FieldError FieldsReader::read_at(Where where, std::string_view name, const JsonValue& value, ReasonText& reason) {
  const bool is_null = value.is_null();  // clients send null for what is not set
  for (const FieldRows rows : {fields(), api_fields()})
    for (const FieldRow& row : rows) {
      if (row.name != name || (row.input && where == Where::kOptions)) continue;
      if (is_null && !row.input) return {};
      return row.read(*this, {row.name.data(), value, reason});
    }
  return is_null ? FieldError{} : read_other(name, value, reason);
}

FieldError FieldsReader::read_other(std::string_view name, const JsonValue& value, ReasonText& reason) {
  using Unknown = JsonApi::Unknown;
  using Named = JsonApi::Named;
  RequestView& view = options_.base;
  const OptionValue option = option_value(value, lists_);
  if (const auto error = set_call_option(name, option, view)) return *error;
  if (api_.unknown == Unknown::kRefused && ignored_.take(name)) return {};
  if (api_.named != Named::kNone)
    if (const auto error = service::set_option(name, option, view, lists_))
      if (*error || api_.named == Named::kAll || !view.has_generate) return *error;
  if (api_.unknown == Unknown::kIgnored) return {};
  if (api_.unknown == Unknown::kRefusedInText)
    return {"", reason.print("'%.*s' is not a field of this request", shown(name), name.data())};
  std::snprintf(lists_.unknown, sizeof lists_.unknown, "%.*s", shown(name), name.data());
  return {lists_.unknown, "is not a field of this request"};
}

AnswerId FieldsReader::next_id() {
  AnswerId id;
  std::snprintf(id.text, sizeof id.text, "%016llx%08llx", (unsigned long long)now_ns(), (unsigned long long)made_++);
  return id;
}

}  // namespace fastqps::protocols
