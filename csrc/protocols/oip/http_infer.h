// Inference over HTTP: requests and responses in JSON, with the contents of tensors in it or, by the protocol's binary
// extension, behind it.
#pragma once
#include <string>

#include "protocols/json/json_body.h"
#include "protocols/oip/infer_request.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// Reads a body of which Inference-Header-Content-Length bytes are JSON. The route's parameters are the model and,
// if there are two, its version. Its context is an InferContext.
class HttpInferReader final : public service::RequestReader {
 public:
  HttpInferReader(service::ModelRoutes& routes, u32 items_max) : request_(routes, items_max) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return request_.items(); }
  FieldError item(u32 index, RequestView& view) override { return request_.item(index, view, item_reason_); }
  std::string_view context() const override { return context_; }

 private:
  FieldError read_field(std::string_view name, const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_parameters(const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_input(const simdjson::dom::object& input, ReasonText& reason);
  FieldError read_contents(const simdjson::dom::element* data, const TensorParameters& parameters, InputTensor& tensor,
                           ReasonText& reason);
  FieldError read_output(const simdjson::dom::object& output, ReasonText& reason);

  InferRequest request_;
  JsonBody body_;
  std::string_view binary_;  // what no input has taken yet
  // Outputs whose form was given, and those of them that are binary; what the others are.
  u8 form_given_ = 0, binary_outputs_ = 0;
  bool binary_by_default_ = false;
  std::string context_;
  ReasonText item_reason_;
};

class HttpInferWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  transport::HttpReply reply(const service::AnsweredCall& call, std::span<const ResponseView> items,
                             size_t bytes) const override;
  const service::FieldNames* fields() const override { return &service::kInferFields; }
};

}  // namespace fastqps::protocols
