#include "service/formats/options.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "contract/response_view.h"

namespace fastqps::service {

using Kind = OptionValue::Kind;

const char* to_text(const OptionValue& value, std::string_view* out) {
  if (value.kind != Kind::kString) return "must be a string";
  *out = value.text;
  return nullptr;
}

const char* to_bool(const OptionValue& value, bool* out) {
  if (value.kind != Kind::kBool) return "must be a bool";
  *out = value.boolean;
  return nullptr;
}

const char* to_u64(const OptionValue& value, u64* out) {
  if (value.kind == Kind::kUint) return *out = value.unsigned_integer, nullptr;
  if (value.kind != Kind::kInt || value.integer < 0) return "must be an integer, 0 or more";
  *out = u64(value.integer);
  return nullptr;
}

const char* to_u32(const OptionValue& value, u32* out) {
  u64 wide;
  if (const char* why = to_u64(value, &wide)) return why;
  if (wide > std::numeric_limits<u32>::max()) return "must be below 2^32";
  *out = u32(wide);
  return nullptr;
}

const char* to_count(const OptionValue& value, u32* out) {
  const char* why = to_u32(value, out);
  return why || *out ? why : "is 0, must be at least 1";
}

const char* to_float(const OptionValue& value, float* out) {
  switch (value.kind) {
    case Kind::kDouble:
      return *out = float(value.number), nullptr;
    case Kind::kInt:
      return *out = float(value.integer), nullptr;
    case Kind::kUint:
      return *out = float(value.unsigned_integer), nullptr;
    default:
      return "must be a number";
  }
}

const char* to_aggregation(const OptionValue& value, i32* out) {
  constexpr std::string_view kNames[] = {"none", "simple", "first", "average", "max"};  // fastqps.v1.Aggregation from 1
  const auto* name = std::find(std::begin(kNames), std::end(kNames), value.text);
  if (name == std::end(kNames)) return "must be none, simple, first, average or max";
  return *out = i32(name - kNames) + 1, nullptr;
}

namespace {

// Signed ones, too, as OpenAI's API has them.
const char* to_seed(const OptionValue& value, u64* out) {
  if (value.kind == Kind::kInt) return *out = u64(value.integer), nullptr;
  return to_u64(value, out) ? "must be an integer of 64 bits" : nullptr;
}

// The value itself, or its elements.
std::span<const OptionValue> elements_of(const OptionValue& value) {
  return value.kind == Kind::kList ? value.list : std::span(&value, 1);
}

// ---- an option's value by its type

const char* to_value(const OptionValue& value, u32* out) { return to_u32(value, out); }
const char* to_value(const OptionValue& value, u64* out) { return to_seed(value, out); }
const char* to_value(const OptionValue& value, float* out) { return to_float(value, out); }
const char* to_value(const OptionValue& value, bool* out) { return to_bool(value, out); }
const char* to_value(const OptionValue& value, std::optional<bool>* out) { return to_bool(value, &out->emplace()); }

const char* to_value(const OptionValue& value, IdList* out) {
  static_assert(IdList::kMax == 8);
  *out = {};
  const std::span<const OptionValue> elements = elements_of(value);
  if (elements.size() > IdList::kMax) return "has more than 8 ids";
  for (const OptionValue& each : elements) {
    u32 id;
    if (to_u32(each, &id)) return "must be an array of token ids";
    out->add(id);
  }
  return nullptr;
}

const char* to_texts(const OptionValue& value, std::span<std::string_view> room, OptionTexts& out) {
  const std::span<const OptionValue> elements = elements_of(value);
  for (size_t i = 0; i < elements.size(); i++)
    if (to_text(elements[i], &room[i])) return "must be a string or an array of strings";
  out = {u32(elements.size()), room.first(elements.size())};
  return nullptr;
}

const char* to_stops(const OptionValue& value, OptionLists& lists, OptionTexts& out) {
  static_assert(kStopStringsMax == 16);
  if (elements_of(value).size() > kStopStringsMax) return "has more than 16 strings";
  return to_texts(value, lists.stops, out);
}

// None is an error here, because it was given; and the field has the name that its protocol gives it.
const char* to_choices(const OptionValue& value, OptionLists& lists, OptionTexts& out) {
  static_assert(kChoiceTextsMax == 64 && kTextBytesMax == 256);
  const size_t n = elements_of(value).size();
  if (!n || n > kChoiceTextsMax) return "must have 1 to 64 strings";
  if (const char* why = to_texts(value, lists.choices, out)) return why;
  for (const std::string_view text : out.given)
    if (text.empty() || text.size() > kTextBytesMax) return "must have strings of 1 to 256 bytes";
  return nullptr;
}

// As Mistral's and Voyage's APIs name them.
const char* to_dtype(const OptionValue& value, i32* out) {
  constexpr std::pair<std::string_view, DType> kNames[] = {{"float", DType::kFloat32},
                                                           {"int8", DType::kInt8},
                                                           {"uint8", DType::kUint8},
                                                           {"binary", DType::kBinary},
                                                           {"ubinary", DType::kUbinary}};
  for (const auto& [name, dtype] : kNames)
    if (value.text == name) return *out = i32(dtype), nullptr;
  return "must be float, int8, uint8, binary or ubinary";
}

// As vLLM names them.
struct NamedStructure {
  const char* name;
  Structure kind;
};
std::optional<NamedStructure> structure_named(std::string_view name) {
  static constexpr NamedStructure kNames[] = {{"guided_json", Structure::kJsonSchema},
                                              {"guided_regex", Structure::kRegex},
                                              {"guided_grammar", Structure::kGrammar}};
  for (const NamedStructure& each : kNames)
    if (each.name == name) return each;
  return {};
}
const char* set_structure(const NamedStructure& structure, const OptionValue& value, RequestView& view) {
  if (view.generate.structure) return "is given beside another structure";
  view.has_generate = true;
  view.generate.structure = i32(structure.kind);
  view.generate.structure_field = structure.name;
  return to_text(value, &view.generate.structure_text);
}

template <class Row, class Message>
const char* set(const Row& row, const OptionValue& value, Message& message) {
  if constexpr (std::is_same_v<typename Row::Value, u32>) {
    if (row.is(kZeroIsAbsent)) return to_count(value, &(message.*row.member));
    if (row.is(kAllIsMinusOne) && value.kind == Kind::kInt && value.integer == -1)
      return message.*row.member = 0, nullptr;
  }
  return to_value(value, &(message.*row.member));
}

}  // namespace

std::optional<FieldError> set_option(std::string_view name, const OptionValue& value, RequestView& view,
                                     OptionLists& lists) {
  FieldError error;
  if (name == "prompt_name") return FieldError{"prompt_name", to_text(value, &view.prompt_name)};
  if (name == "output_dtype") return FieldError{"output_dtype", to_dtype(value, &view.output.dtype)};
  if (name == "logit_bias")
    return FieldError{"logit_bias", "is an object, which this protocol's options cannot be; use gRPC or OpenAI's API"};
  if (const auto structure = structure_named(name))
    return FieldError{structure->name, set_structure(*structure, value, view)};
  if (name == "truncate") return FieldError{"truncate", to_bool(value, &view.truncation.asked.emplace())};
  const auto found = [&](const auto& row) {
    if (!row.is(kByName) || row.name() != name) return false;
    error.field = row.name().data();
    return true;
  };
  const auto set_output = [&](const auto& row) {
    if constexpr (!std::is_same_v<typename std::decay_t<decltype(row)>::Value, i32>)
      if (found(row)) return error.reason = set(row, value, view.output), true;
    return false;
  };
  const auto set_generate = [&](const auto& row) {
    using Value = typename std::decay_t<decltype(row)>::Value;
    if constexpr (std::is_same_v<Value, i32> || std::is_same_v<Value, std::string_view> ||
                  std::is_same_v<Value, BiasCount>) {
      return false;  // read above
    } else {
      if (!found(row)) return false;
      view.has_generate = true;
      if (row.is(kOptional)) view.generate.set_given(row.number);
      if constexpr (std::is_same_v<Value, OptionTexts>)
        error.reason =
            (row.member == &GenerateOptions::stop ? to_stops : to_choices)(value, lists, view.generate.*row.member);
      else
        error.reason = set(row, value, view.generate);
      return true;
    }
  };
  if (any_option(kOutputOptions, set_output) || any_option(kGenerateOptions, set_generate)) return error;
  return {};
}

}  // namespace fastqps::service
