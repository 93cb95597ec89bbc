// The options of TEI's requests over HTTP, by their names in JSON.
#pragma once
#include "json/json_body.h"
#include "tei/text_request.h"

namespace fastqps::front {

struct JsonOptions {
  TextOptions text;
  RequestView base;  // priority and timeout
  bool return_text = false;
};

// Reads one of a request's fields. TEI ignores fields that it does not know, so they are ignored here.
FieldError read_json_option(std::string_view name, const simdjson::dom::element& value, JsonOptions& options);

}  // namespace fastqps::front
