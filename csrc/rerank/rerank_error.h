// Errors of the rerank API.
#pragma once
#include "http/http_error.h"

namespace fastqps::front {

// {"message", "detail"}: Cohere's clients read the one, Jina's the other.
void write_rerank_error(const HttpError& error, HttpErrorBody& body);

}  // namespace fastqps::front
