#include "protocols/json/json_body.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/types.h"

namespace fastqps::protocols {

namespace {

constexpr size_t kDepthMax = 8;  // of a path; nothing that is read lies deeper
constexpr size_t kNameMax = 40;

struct Level {
  bool is_array;
  u32 index = 0;               // of an array
  std::string_view name = {};  // of an object: of its current field
};

// The number of \uXXXX at the start of text, or -1.
int escaped_unit(std::string_view text) {
  if (text.size() < 6 || text[0] != '\\' || text[1] != 'u') return -1;
  int unit = 0;
  for (const char digit : text.substr(2, 4)) {
    const int value = digit >= '0' && digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10;
    if (value < 0 || value > 15) return -1;
    unit = unit * 16 + value;
  }
  return unit;
}

bool is_text(std::string_view raw) {
  if (!simdjson::validate_utf8(raw)) return false;
  for (size_t at = 0; (at = raw.find('\\', at)) < raw.size(); at += 2) {
    const int unit = escaped_unit(raw.substr(at));
    if (unit < 0xd800 || unit > 0xdfff) continue;
    const int second = unit < 0xdc00 ? escaped_unit(raw.substr(at + 6)) : -1;
    if (second < 0xdc00 || second > 0xdfff) return false;
    at += 10;
  }
  return true;
}

std::string path_of(const std::vector<Level>& levels) {
  std::string path;
  for (const Level& level : levels) {
    if (level.is_array) {
      path += '[' + std::to_string(level.index) + ']';
    } else {
      path.append(path.empty() ? "" : ".").append(level.name.substr(0, kNameMax));
    }
  }
  return path;
}

// The path of the first string that holds half of a surrogate pair or damaged UTF-8, such as `inputs[3]`; empty if
// there is none. body: JSON that simdjson has refused.
std::string bad_string(std::span<const u8> body) {
  const std::string_view json(reinterpret_cast<const char*>(body.data()), body.size());
  std::vector<Level> levels;
  size_t deeper = 0;  // levels that no path names
  for (size_t at = 0; at < json.size(); at++) {
    const char c = json[at];
    if (c == '{' || c == '[') {
      if (levels.size() == kDepthMax) {
        deeper++;
      } else {
        levels.push_back({.is_array = c == '['});
      }
    } else if (c == '}' || c == ']') {
      if (deeper) {
        deeper--;
      } else if (!levels.empty()) {
        levels.pop_back();
      }
    } else if (c == ',' && !deeper && !levels.empty()) {
      levels.back().index++;
    } else if (c == '"') {
      const size_t begin = at + 1;
      for (at = begin; at < json.size() && json[at] != '"'; at++) at += json[at] == '\\';
      if (at >= json.size()) return {};
      const std::string_view raw = json.substr(begin, at - begin);
      const size_t next = json.find_first_not_of(" \t\r\n", at + 1);
      const bool is_name = next < json.size() && json[next] == ':';
      if (!is_text(raw)) return is_name ? "a name" : path_of(levels);
      if (is_name && !deeper && !levels.empty()) levels.back().name = raw;
    }
  }
  return {};
}

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

FieldError JsonBody::parse(std::span<const u8> body, JsonObject* out, ReasonText& reason) {
  if (padded_.size() > kKeptBytes) {
    padded_ = {};
    parser_ = simdjson::dom::parser();
  }
  if (const char* why = skip_byte_order_mark(body)) return {"", why};
  padded_.resize(body.size() + simdjson::SIMDJSON_PADDING);
  if (!body.empty()) std::memcpy(padded_.data(), body.data(), body.size());
  std::memset(padded_.data() + body.size(), 0, simdjson::SIMDJSON_PADDING);
  JsonValue document;
  const auto error = parser_.parse(padded_.data(), body.size(), false).get(document);
  if (error == simdjson::NUMBER_ERROR)
    if (const FieldError beyond = find_number(body.size())) return beyond;
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

OptionValue option_value(const JsonValue& value) {
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

OptionValue option_value(const JsonValue& value, OptionLists& lists) {
  JsonArray array;
  if (value.get(array)) return option_value(value);
  size_t n = 0;
  for (const JsonValue& each : array) {
    if (n == lists.elements.size()) break;
    lists.elements[n++] = option_value(each);
  }
  return {.kind = OptionValue::Kind::kList, .list = std::span(lists.elements).first(n)};
}

namespace {

using Kind = OptionValue::Kind;

const char* set_priority(const OptionValue& value, RequestView& view) {
  constexpr std::string_view kNames[] = {"low", "normal", "high"};  // fastqps.v1.Priority from 1 on
  const auto* level = std::find(std::begin(kNames), std::end(kNames), value.text);
  if (value.kind != Kind::kString || level == std::end(kNames)) return "must be low, normal or high";
  view.priority = i32(level - kNames) + 1;
  return nullptr;
}

const char* set_timeout(const OptionValue& value, RequestView& view) {
  constexpr float kLongest = 86400.0f * 365;
  float seconds;
  if (const char* why = service::to_float(value, &seconds)) return why;
  if (!(seconds > 0 && seconds <= kLongest)) return "must be a number of seconds above 0, at most a year";
  view.timeout_us = std::max<u64>(1, u64(double(seconds) * 1e6));
  return nullptr;
}

}  // namespace

std::optional<FieldError> set_call_option(std::string_view name, const OptionValue& value, RequestView& view) {
  if (name == "priority") return FieldError{"priority", set_priority(value, view)};
  if (name == "timeout") return FieldError{"timeout", set_timeout(value, view)};
  if (name == "tenant") return FieldError{"tenant", service::to_text(value, &view.tenant)};
  if (name == "group") return FieldError{"group", service::to_text(value, &view.group)};
  return {};
}

}  // namespace fastqps::protocols
