#include "protocols/openai/common.h"

#include <cstdio>

#include "protocols/json/json_body.h"

namespace fastqps::protocols {

FieldError unknown_field(std::string_view name, service::OptionLists& lists) {
  std::snprintf(lists.unknown, sizeof lists.unknown, "%.*s", shown(name), name.data());
  return {lists.unknown, "is not a field of this request"};
}

FieldError read_common_field(std::string_view name, const simdjson::dom::element& element, RequestView& view,
                             service::OptionLists& lists) {
  if (element.is_null()) return {};  // clients send null for what is not set
  const service::OptionValue value = option_value(element, lists);
  std::string_view user;
  if (name == "model") return {"model", service::to_text(value, &view.model)};
  if (name == "user") return {"user", service::to_text(value, &user)};
  if (const auto error = set_call_option(name, value, view)) return *error;
  if (const auto error = service::set_option(name, value, view, lists)) return *error;
  return unknown_field(name, lists);
}

namespace {

struct ErrorKind {
  const char *type, *code;  // code nullptr: null
};

ErrorKind kind_of(const transport::HttpError& error, u16 status) {
  switch (status) {
    case 401:
      return {"authentication_error", "invalid_api_key"};
    case 404:
      return {"invalid_request_error", error.field == "model" ? "model_not_found" : "not_found"};
    case 429:
      return {"rate_limit_error", "rate_limit_exceeded"};
    default:
      return {status < 500 ? "invalid_request_error" : "server_error", nullptr};
  }
}

}  // namespace

void write_openai_error(const transport::HttpError& error, transport::HttpErrorBody& body) {
  const ErrorKind kind = kind_of(error, body.status);
  body.text = R"({"error":{"message":)";
  transport::append_json_string(body.text, error.message);
  body.text += R"(,"type":")" + std::string(kind.type) + R"(","param":)";
  if (error.field.empty()) {
    body.text += "null";
  } else {
    transport::append_json_string(body.text, error.field);
  }
  body.text += R"(,"code":)";
  body.text += kind.code ? '"' + std::string(kind.code) + '"' : "null";
  body.text += "}}";
}

}  // namespace fastqps::protocols
