// What the requests and answers of OpenAI's API have in common.
#pragma once
#include <string_view>

#include "protocols/json/json_body.h"
#include "service/formats/protocol.h"
#include "transport/http/http_error.h"

namespace fastqps::protocols {

// Reads a field that is not a request's own: the model, the user, and fastqps's options by name, among them priority
// ("low", "normal", "high") and timeout (seconds). An unknown field is an error.
// lists: what the view and the error refer to.
FieldError read_common_field(std::string_view name, const simdjson::dom::element& value, RequestView& view,
                             service::OptionLists& lists);

FieldError unknown_field(std::string_view name, service::OptionLists& lists);

// {"error": {"message", "type", "param", "code"}}
void write_openai_error(const transport::HttpError& error, transport::HttpErrorBody& body);

}  // namespace fastqps::protocols
