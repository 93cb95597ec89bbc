// What the requests and answers of OpenAI's API have in common.
#pragma once
#include <string_view>

#include "http/http_error.h"
#include "json/json_body.h"
#include "predict/formats/answer_writer.h"

namespace fastqps::front {

// Reads a field that is not a request's own: the model, the user, and fastqps's options by name, among them priority
// ("low", "normal", "high") and timeout (seconds). An unknown field is an error.
// lists: what the view and the error refer to.
FieldError read_common_field(std::string_view name, const simdjson::dom::element& value, RequestView& view,
                             OptionLists& lists);

FieldError unknown_field(std::string_view name, OptionLists& lists);

// {"error": {"message", "type", "param", "code"}}
void write_openai_error(const HttpError& error, HttpErrorBody& body);

}  // namespace fastqps::front
