#include "json/json_body.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "json/bad_string.h"

namespace fastqps::front {

namespace {

// Some clients write UTF-8 with a byte order mark, which RFC 8259 lets a reader ignore. Returns what is wrong.
const char* skip_byte_order_mark(std::span<const u8>& body) {
  const auto begins = [&](std::initializer_list<u8> with) {
    return body.size() >= with.size() && std::equal(with.begin(), with.end(), body.begin());
  };
  if (begins({0xef, 0xbb, 0xbf})) {
    body = body.subspan(3);
  } else if (begins({0xff, 0xfe}) || begins({0xfe, 0xff}) || begins({0, 0, 0xfe, 0xff})) {
    return "the body begins with the byte order mark of UTF-16 or UTF-32, must be JSON in UTF-8";
  }
  return nullptr;
}

}  // namespace

FieldError JsonBody::parse(std::span<const u8> body, simdjson::dom::object* out, ReasonText& reason) {
  if (padded_.size() > kKeptBytes) {
    padded_ = {};
    parser_ = simdjson::dom::parser();
  }
  if (const char* why = skip_byte_order_mark(body)) return {"", why};
  padded_.resize(body.size() + simdjson::SIMDJSON_PADDING);
  if (!body.empty()) std::memcpy(padded_.data(), body.data(), body.size());
  std::memset(padded_.data() + body.size(), 0, simdjson::SIMDJSON_PADDING);
  simdjson::dom::element document;
  const auto error = parser_.parse(padded_.data(), body.size(), false).get(document);
  if (error == simdjson::NUMBER_ERROR)
    if (const FieldError found = find_number(body.size())) return found;
  if (error == simdjson::STRING_ERROR || error == simdjson::UTF8_ERROR)
    if (const std::string where = bad_string(body); !where.empty())
      return {"", reason.print("the body is not valid JSON: %s holds half of a surrogate pair or damaged UTF-8",
                               where.c_str())};
  if (error) return {"", reason.print("the body is not valid JSON: %s", simdjson::error_message(error))};
  if (document.get(*out)) return {"", "the body must be a JSON object"};
  return {};
}

// The field whose number no type can hold, such as 2^64. It is valid JSON. Nothing where it is not the value of a
// field.
FieldError JsonBody::find_number(size_t bytes) {
  namespace ondemand = simdjson::ondemand;
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object object;
  if (parser.iterate(padded_.data(), bytes, padded_.size()).get(document) || document.get_object().get(object))
    return {};
  for (auto field : object) {
    ondemand::value value;
    std::string_view name, token;
    if (field.unescaped_key().get(name) || field.value().get(value)) return {};
    ondemand::json_type type;
    if (value.type().get(type) || type != ondemand::json_type::number) continue;
    token = value.raw_json_token();
    const bool whole = token.substr(0, token.find_first_of(" \t\r\n,}")).find_first_of(".eE") == std::string_view::npos;
    const bool held = whole ? !value.get_int64().error() || !value.get_uint64().error() : !value.get_double().error();
    if (held) continue;
    field_ = name.substr(0, size_t(shown(name)));
    return {field_.c_str(), "a number beyond 64 bits"};
  }
  return {};
}

OptionValue option_value(const simdjson::dom::element& value) {
  using simdjson::dom::element_type;
  using Kind = OptionValue::Kind;
  switch (value.type()) {
    case element_type::BOOL:
      return {.kind = Kind::kBool, .boolean = bool(value)};
    case element_type::INT64:
      return {.kind = Kind::kInt, .integer = i64(value)};
    case element_type::UINT64:
      return {.kind = Kind::kUint, .unsigned_integer = u64(value)};
    case element_type::DOUBLE:
      return {.kind = Kind::kDouble, .number = double(value)};
    case element_type::STRING:
      return {.kind = Kind::kString, .text = std::string_view(value)};
    default:
      return {};
  }
}

OptionValue option_value(const simdjson::dom::element& value, OptionLists& lists) {
  simdjson::dom::array array;
  if (value.get(array)) return option_value(value);
  size_t n = 0;
  for (const simdjson::dom::element& each : array) {
    if (n == lists.elements.size()) break;
    lists.elements[n++] = option_value(each);
  }
  return {.kind = OptionValue::Kind::kList, .list = std::span(lists.elements).first(n)};
}

}  // namespace fastqps::front
