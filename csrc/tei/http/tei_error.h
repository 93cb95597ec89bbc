// Errors as text-embeddings-inference has them over HTTP.
#pragma once
#include "http/http_error.h"

namespace fastqps::front {

// {"error", "error_type"}
void write_tei_error(const HttpError& error, HttpErrorBody& body);

}  // namespace fastqps::front
