// ModelInferRequest, ModelInferResponse and ModelStreamInferResponse of the Open Inference Protocol, read and written
// in place.
#pragma once
#include <string>
#include <vector>

#include "protocols/oip/infer_request.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// Its context is an InferContext.
class InferReader final : public service::RequestReader {
 public:
  // of_stream: a generation is answered piece by piece.
  InferReader(service::ModelRoutes& routes, u32 items_max, bool of_stream)
      : request_(routes, items_max), of_stream_(of_stream) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return request_.items(); }
  FieldError item(u32 index, RequestView& view) override { return request_.item(index, view, item_reason_); }
  std::string_view context() const override { return context_; }
  bool streams() const override { return of_stream_ && request_.items() == 1 && request_.generates(); }

 private:
  struct NamedTensor {
    std::string_view name;
    std::vector<std::string_view> parameters;
  };
  struct Input : NamedTensor, InputTensor {
    bool typed = false;  // it has contents of its own
    void clear() {
      name = {}, typed = false;
      parameters.clear();
      InputTensor::clear();
    }
    FieldError read_contents(std::string_view contents);
  };
  FieldError read_parameter(std::string_view entry);
  FieldError read_input(std::string_view message);
  FieldError read_output(std::string_view message);
  FieldError check_parameters(const NamedTensor& tensor, const char* where);
  FieldError read_raw();

  InferRequest request_;
  const bool of_stream_;
  std::string_view model_, version_, id_;
  Input input_;                        // that is read
  std::vector<InputTensor*> inputs_;   // in the order of the message
  std::vector<std::string_view> raw_;  // raw_input_contents
  u32 typed_ = 0;                      // inputs with contents of their own
  std::string context_;
  ReasonText* reason_ = nullptr;
  ReasonText item_reason_;
};

class InferWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kInferFields; }
};

class InferStreamWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  size_t chunk_room(const service::AnsweredCall& call, const ChunkView& chunk) const override;
  u8* write_chunk(const service::AnsweredCall& call, const ChunkView& chunk, u8* out) const override;
  size_t failure_room(const service::AnsweredCall& call, std::string_view message) const override;
  u8* write_failure(const service::AnsweredCall& call, std::string_view message, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kInferFields; }
};

}  // namespace fastqps::protocols
