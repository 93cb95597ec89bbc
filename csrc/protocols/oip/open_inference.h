// The Open Inference Protocol: what reads and writes the messages of inference, over gRPC and HTTP.
#pragma once
#include <string>
#include <vector>

#include "protocols/json/json_body.h"
#include "protocols/oip/infer_request.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// Reads a ModelInferRequest in place. Its context is an InferContext.
class InferReader final : public service::RequestReader {
 public:
  // of_stream: a generation is answered piece by piece.
  InferReader(service::ModelRoutes& routes, u32 items_max, bool of_stream)
      : request_(routes, items_max), of_stream_(of_stream) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return request_.items(); }
  u32 candidates() const override { return request_.candidates(); }
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
      empty(parameters);
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

// Reads a body of which Inference-Header-Content-Length bytes are JSON. The route's parameters are the model and,
// if there are two, its version. Its context is an InferContext.
class HttpInferReader final : public service::RequestReader {
 public:
  HttpInferReader(service::ModelRoutes& routes, u32 items_max) : request_(routes, items_max) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return request_.items(); }
  u32 candidates() const override { return request_.candidates(); }
  FieldError item(u32 index, RequestView& view) override { return request_.item(index, view, item_reason_); }
  std::string_view context() const override { return context_; }

 private:
  FieldError read_field(std::string_view name, const JsonValue& value, ReasonText& reason);
  FieldError read_parameters(const JsonValue& value, ReasonText& reason);
  FieldError read_input(const JsonObject& input, ReasonText& reason);
  FieldError read_contents(const JsonValue* data, const TensorParameters& parameters, InputTensor& tensor,
                           ReasonText& reason);
  FieldError read_output(const JsonObject& output, ReasonText& reason);

  InferRequest request_;
  JsonBody body_;
  std::string_view binary_;  // what no input has taken yet
  // Outputs whose form was given, and those of them that are binary; what the others are.
  OutputSet form_given_ = 0, binary_outputs_ = 0;
  bool binary_by_default_ = false;
  std::string context_;
  ReasonText item_reason_;
};

// Their context is an InferContext. The first two write ModelInferResponse and ModelStreamInferResponse, the last one
// JSON.
extern const service::AnswerWriter &kInferWriter, &kInferStreamWriter, &kHttpInferWriter;

}  // namespace fastqps::protocols
