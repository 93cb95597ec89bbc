// What the requests and answers of OpenAI's API have in common.
#pragma once
#include <string_view>

#include "json/json_body.h"
#include "predict/formats/answer_writer.h"

namespace fastqps::front {

// Reads a field that is not a request's own: the model, the user, and fastqps's options by name, among them priority
// ("low", "normal", "high") and timeout (seconds). An unknown field is an error.
// lists: what the view and the error refer to.
FieldError read_common_field(std::string_view name, const simdjson::dom::element& value, RequestView& view,
                             OptionLists& lists);

// The name of a field of PredictRequest. input: that of the texts.
std::string_view openai_field(std::string_view field, std::string_view input);

}  // namespace fastqps::front
