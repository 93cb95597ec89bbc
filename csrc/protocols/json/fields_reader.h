// Reads bodies whose fields are declared: a row of a table has a field's name, and what is done with its value.
#pragma once
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "contract/fields.h"
#include "protocols/json/json_reader.h"
#include "protocols/json/purpose.h"
#include "protocols/json/text_options.h"

namespace fastqps::protocols {

class FieldsReader;

// A field of a body.
struct GivenField {
  const char* name;  // as its row has it
  const JsonValue& value;
  ReasonText& reason;

  OptionValue option() const { return option_value(value); }
  std::string_view text() const { return option().text; }  // empty if it is no string
};

struct FieldRow {
  std::string_view name;  // a literal
  FieldError (*read)(FieldsReader&, const GivenField&);
  bool input = false;  // no option: null is a value of it, and no object of options has it
};
using FieldRows = std::span<const FieldRow>;
inline constexpr bool kInput = true;

// ---- a value, by the type of what it is read into

inline FieldError read_value(const GivenField& field, std::string_view& text) {
  return {field.name, service::to_text(field.option(), &text)};
}
inline FieldError read_value(const GivenField& field, bool& flag) {
  return {field.name, service::to_bool(field.option(), &flag)};
}
inline FieldError read_value(const GivenField& field, u32& count) {  // at least 1
  return {field.name, service::to_count(field.option(), &count)};
}
template <class T>
FieldError read_value(const GivenField& field, std::optional<T>& value) {
  return read_value(field, value.emplace());
}
// TextInput, TextList: what reads itself.
template <class T>
auto read_value(const GivenField& field, T& value) -> decltype(value.read(field)) {
  return value.read(field);
}
// One of some words, as its place among them. `value` is unchanged if it is none of them.
using Words = std::initializer_list<std::string_view>;
std::optional<size_t> find_word(std::string_view word, Words words);
FieldError refuse_word(const GivenField& field, Words words);
template <class T>
FieldError read_word(const GivenField& field, Words words, T& value) {
  const std::optional<size_t> place = find_word(field.text(), words);
  return place ? (value = T(*place), FieldError{}) : refuse_word(field, words);
}

// ---- readers

// Fields that SDKs and proxies send and that change nothing here, as a set of bits: the response names them.
class IgnoredFields {
 public:
  // Whether the field is one of them. It is noted then.
  bool take(std::string_view name);
  void clear() { bits_ = 0; }
  // As a part of an answer's context.
  char letter() const { return char('@' + bits_); }
  // Names of a context's letter, with commas between them; they live for ever.
  static std::string_view names(char letter);

 private:
  u8 bits_ = 0;
};

// What the requests of an API have in common.
struct JsonApi {
  enum class Unknown : u8 { kIgnored, kRefused, kRefusedInText };  // fields; kRefused: but for IgnoredFields
  enum class Named : u8 { kNone, kOutput, kAll };  // which fastqps options by name: those of a generation are in kAll

  JsonOptions defaults = {};
  Unknown unknown = Unknown::kIgnored;
  Named named = Named::kNone;
};

// The id of an answer, which is unique in this process: hexadecimal.
struct AnswerId {
  char text[25] = "";
};

class FieldsReader : public JsonReader {
 public:
  FieldError read_body(const JsonObject& body, const transport::CallInfo& info, ReasonText& reason) final;
  const JsonOptions& defaults() const { return api_.defaults; }

 protected:
  FieldsReader(const JsonApi& api, u32 items_max) : items_max_(items_max), api_(api) {}

  // The fields of this request, and those that all requests of the API have. Beside them a request has priority,
  // timeout, tenant and group.
  virtual FieldRows fields() const = 0;
  virtual FieldRows api_fields() const { return {}; }
  // Forgets the last request.
  virtual void clear() = 0;
  // After all fields.
  virtual FieldError check(const transport::CallInfo& info, ReasonText& reason) = 0;

  void begin(const JsonOptions& options);
  FieldError read_fields(const JsonObject& body, ReasonText& reason);
  virtual FieldError read_field(std::string_view name, const JsonValue& value, ReasonText& reason);
  // The fields of an object that is a field itself: the last part of a row's name is that of such a field. null is
  // none.
  FieldError read_parts(const GivenField& field, FieldRows rows);
  // The fields of an object that has options alone.
  FieldError read_options(const JsonObject& options, ReasonText& reason);
  AnswerId next_id();

  // ---- what a row does

  // Reads into a member of the reader, or by a path of members.
  template <auto first, auto... rest>
  static FieldError into(FieldsReader& reader, const GivenField& field) {
    return read_value(field, ((of<first>(reader).*first).*....*rest));
  }
  template <auto member>
  static FieldError text_option(FieldsReader& reader, const GivenField& field) {
    return read_value(field, reader.options_.text.*member);
  }
  template <auto member, auto... rest>
  static FieldError base_option(FieldsReader& reader, const GivenField& field) {
    return read_value(field, ((reader.options_.base.*member).*....*rest));
  }
  // What texts are embedded for. reason: of a refusal.
  template <auto member, FieldName reason>
  static FieldError purpose(FieldsReader& reader, const GivenField& field) {
    const Purpose* found = of<member>(reader).*member = find_purpose(field.text());
    return found ? FieldError{} : FieldError{field.name, reason.text};
  }
  // Calls a member function of the reader.
  template <auto function>
  static FieldError by(FieldsReader& reader, const GivenField& field) {
    return (of<function>(reader).*function)(field);
  }
  // Sets an option that has another name here.
  template <FieldName name>
  static FieldError renamed(FieldsReader& reader, const GivenField& field) {
    const OptionValue option = option_value(field.value, reader.lists_);
    const auto error = service::set_option(name.text, option, reader.options_.base, reader.lists_);
    return {field.name, error->reason, error->fault};
  }
  // Takes a value of this type and does nothing with it.
  template <class T>
  static FieldError unused(FieldsReader&, const GivenField& field) {
    T value;
    return read_value(field, value);
  }
  // Takes this value alone, a bool or a number, as there is no counterpart here of any other.
  template <auto value, FieldName reason = "can only have its default here">
  static FieldError only(FieldsReader&, const GivenField& field) {
    const OptionValue given = field.option();
    if constexpr (std::is_same_v<decltype(value), bool>) {
      if (given.kind == OptionValue::Kind::kBool && given.boolean == value) return {};
    } else {
      float number;
      if (!service::to_float(given, &number) && number == value) return {};
    }
    return {field.name, reason.text};
  }
  // The same of an empty text or object.
  template <class T, FieldName reason = "can only have its default here">
  static FieldError only_empty(FieldsReader&, const GivenField& field) {
    T value;
    if (!field.value.get(value) && !value.size()) return {};
    return {field.name, reason.text};
  }
  // And of words.
  template <FieldName... word>
  static FieldError only_words(FieldsReader&, const GivenField& field) {
    size_t any;
    return read_word(field, {word.text...}, any);
  }
  // What a text has to be (structures.h).
  template <auto read>
  static FieldError structure(FieldsReader& reader, const GivenField& field) {
    return read(field, reader.options_.base, reader.structure_text_);
  }
  // Refuses the field.
  template <FieldName reason>
  static FieldError refused(FieldsReader&, const GivenField& field) {
    return {field.name, reason.text};
  }

  const u32 items_max_;
  JsonOptions options_;
  IgnoredFields ignored_;

 private:
  template <class Member>
  struct ClassOf;
  template <class T, class Class>
  struct ClassOf<T Class::*> {
    using type = Class;
  };
  template <auto member>
  static auto& of(FieldsReader& reader) {
    return static_cast<typename ClassOf<decltype(member)>::type&>(reader);
  }
  enum class Where : u8 { kBody, kOptions };
  FieldError read_at(Where where, std::string_view name, const JsonValue& value, ReasonText& reason);
  FieldError read_other(std::string_view name, const JsonValue& value, ReasonText& reason);

  const JsonApi& api_;
  OptionLists lists_;  // what the view and an error refer to
  std::string structure_text_;
  u64 made_ = 0;  // answers so far
};

}  // namespace fastqps::protocols
