#include "rerank/rerank_error.h"

namespace fastqps::front {

void write_rerank_error(const HttpError& error, HttpErrorBody& body) {
  body.text = "{\"message\":";
  append_json_string(body.text, error.message);
  body.text += ",\"detail\":";
  append_json_string(body.text, error.message);
  body.text += '}';
}

}  // namespace fastqps::front
