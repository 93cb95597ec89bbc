// Errors as OpenAI's API has them.
#pragma once
#include "http/http_error.h"

namespace fastqps::front {

// {"error": {"message", "type", "param", "code"}}
void write_openai_error(const HttpError& error, HttpErrorBody& body);

}  // namespace fastqps::front
