// ModelInferRequest and ModelInferResponse of the Open Inference Protocol, read and written in place.
#pragma once
#include <string>
#include <vector>

#include "oip/infer_request.h"
#include "predict/formats/answer_writer.h"
#include "predict/formats/request_reader.h"

namespace fastqps::front {

class InferReader final : public RequestReader {
 public:
  InferReader(ModelRoutes& routes, u32 items_max) : request_(routes, items_max) {}

  FieldError read(std::span<const u8> message, const CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return request_.items(); }
  FieldError item(u32 index, RequestView& view) override { return request_.item(index, view, item_reason_); }
  std::string_view context() const override { return context_; }

 private:
  FieldError read_fields(std::string_view message, ReasonText& reason);
  FieldError read_input(std::string_view message, ReasonText& reason);
  FieldError read_output(std::string_view message, ReasonText& reason);
  FieldError read_raw(ReasonText& reason);

  InferRequest request_;
  std::vector<InputTensor*> inputs_;   // in the order of the message
  std::vector<std::string_view> raw_;  // raw_input_contents
  u32 typed_ = 0;                      // inputs with contents of their own
  std::string context_;
  ReasonText item_reason_;
};

// The context is a byte of OutputBits, then the request's id.
class InferWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override;
};

}  // namespace fastqps::front
