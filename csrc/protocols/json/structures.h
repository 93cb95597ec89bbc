// What a text has to be, as OpenAI's and vLLM's APIs say it. A schema that is written as JSON is kept in `text`.
#pragma once
#include <string>

#include "protocols/json/fields_reader.h"

namespace fastqps::protocols {

// The schema, expression or grammar itself; a schema as JSON or as a text.
FieldError read_structure(const GivenField& field, Structure kind, RequestView& view, std::string& text);
template <Structure kind>
FieldError read_guided(const GivenField& field, RequestView& view, std::string& text) {
  return read_structure(field, kind, view, text);
}
// OpenAI's: {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema": …}}.
FieldError read_response_format(const GivenField& field, RequestView& view, std::string& text);
// Whether it is any JSON object.
FieldError read_json_object(const GivenField& field, RequestView& view, std::string& text);

}  // namespace fastqps::protocols
