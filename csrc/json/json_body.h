// Reads a request's JSON body. simdjson parses and validates it; the values are valid until the next body.
#pragma once
#include <simdjson.h>

#include <span>
#include <vector>

#include "predict/formats/options.h"

namespace fastqps::front {

class JsonBody {
 public:
  // The body must be one JSON object.
  FieldError parse(std::span<const u8> body, simdjson::dom::object* out, ReasonText& reason);

 private:
  static constexpr size_t kKeptBytes = 1 << 20;  // memory for a larger body is not kept

  simdjson::dom::parser parser_;
  std::vector<u8> padded_;
};

// A number, bool or string; kOther: null, an array or an object.
OptionValue option_value(const simdjson::dom::element& value);
// The same, and an array of such, whose elements are put into `lists`.
OptionValue option_value(const simdjson::dom::element& value, OptionLists& lists);

}  // namespace fastqps::front
