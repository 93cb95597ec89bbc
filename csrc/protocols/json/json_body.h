// Reads a request's JSON body. simdjson parses and validates it; the values are valid until the next body.
#pragma once
#include <simdjson.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/formats/options.h"

namespace fastqps::protocols {

using service::OptionLists;
using service::OptionValue;
using JsonValue = simdjson::dom::element;
using JsonObject = simdjson::dom::object;
using JsonArray = simdjson::dom::array;

class JsonBody {
 public:
  // The body must be one JSON object.
  FieldError parse(std::span<const u8> body, JsonObject* out, ReasonText& reason);
  // Calls read(name, value) for each of its fields, up to the first error.
  template <class Read>
  FieldError each_field(std::span<const u8> body, ReasonText& reason, Read read) {
    JsonObject fields;
    if (const FieldError error = parse(body, &fields, reason)) return error;
    for (const auto [name, value] : fields)
      if (const FieldError error = read(name, value)) return error;
    return {};
  }

 private:
  FieldError find_number(size_t bytes);
  static constexpr size_t kKeptBytes = 1 << 20;  // memory for a larger body is not kept

  simdjson::dom::parser parser_;
  std::vector<u8> padded_;
  std::string field_;  // of the last error
};

// A number, bool or string; kOther: null, an array or an object.
OptionValue option_value(const JsonValue& value);
// The same, and an array of such, whose elements are put into `lists`.
OptionValue option_value(const JsonValue& value, OptionLists& lists);

// Sets priority ("low", "normal", "high"), timeout (seconds), tenant or group. Nothing for any other name.
std::optional<FieldError> set_call_option(std::string_view name, const OptionValue& value, RequestView& view);

}  // namespace fastqps::protocols
