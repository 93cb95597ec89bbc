// Triton's extension for generation over HTTP: a text and its parameters in plain JSON, and the answer in it.
#pragma once
#include <string>

#include "protocols/json/json_reader.h"
#include "protocols/oip/infer_request.h"

namespace fastqps::protocols {

// POST /v2/models/{model}/generate and …/generate_stream. Its context is an InferContext.
class GenerateReader final : public JsonReader {
 public:
  // of_stream: the answer comes piece by piece.
  GenerateReader(service::ModelRoutes& routes, u32 items_max, bool of_stream)
      : request_(routes, items_max), of_stream_(of_stream) {}

  FieldError read_body(const JsonObject& body, const transport::CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return request_.items(); }
  u32 candidates() const override { return request_.candidates(); }
  FieldError item(u32 index, RequestView& view) override { return request_.item(index, view, item_reason_); }
  std::string_view context() const override { return context_; }
  Output wants() const override { return Output::kText; }
  bool streams() const override { return of_stream_; }

 private:
  FieldError read_field(std::string_view name, const JsonValue& value, ReasonText& reason);
  FieldError read_text(const JsonValue& value, ReasonText& reason);

  InferRequest request_;
  const bool of_stream_;
  std::string context_;
  ReasonText item_reason_;
};

extern const service::AnswerWriter& kGenerateWriter;

}  // namespace fastqps::protocols
