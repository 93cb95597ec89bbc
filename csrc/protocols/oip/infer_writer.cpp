#include "contract/wire.h"
#include "protocols/oip/infer_message.h"

namespace fastqps::protocols {

namespace {

// An entry of the map `parameters`: triton_final_response, a bool.
constexpr std::string_view kFinalName = "triton_final_response";
constexpr size_t kBoolBytes = 2;

enum class Final : u8 { kUnsaid, kNo, kYes };

size_t final_size() { return bytes_size(kFinalName.size()) + delimited_size(kBoolBytes); }

void write_final(WireWriter& out, Final final) {
  out.head(4, final_size());
  out.string(1, kFinalName);
  out.head(2, kBoolBytes);
  const u8 value[kBoolBytes] = {u8(varint_tag(1)), final == Final::kYes};  // written even if false: it is set
  out.raw(value, sizeof value);
}

size_t shape_size(const OutputTensor& tensor) {
  size_t bytes = 0;
  for (const u64 size : tensor.sizes()) bytes += varint_size(size);
  return bytes;
}

size_t tensor_size(const OutputTensor& tensor) {
  return bytes_size(tensor.name.size()) + bytes_size(tensor.datatype.size()) + delimited_size(shape_size(tensor));
}

void write_tensor(WireWriter& out, const OutputTensor& tensor) {
  out.head(5, tensor_size(tensor));
  out.string(1, tensor.name);
  out.string(2, tensor.datatype);
  out.head(3, shape_size(tensor));
  for (const u64 size : tensor.sizes()) out.varint(size);
}

// A ModelInferResponse. items: none of a failure.
class Response {
 public:
  Response(const service::AnsweredCall& call, std::span<const ResponseView> items, Final final)
      : context_(InferContext::read(call.context)),
        model_(served_model(call.model_version)),
        items_(items),
        tensors_(context_.outputs, items),
        final_(final) {}

  size_t size() const {
    size_t bytes = bytes_size(model_.name.size()) + bytes_size(model_.version.size()) + bytes_size(context_.id.size());
    if (final_ != Final::kUnsaid) bytes += delimited_size(final_size());
    for (const OutputTensor& tensor : tensors_)
      bytes += delimited_size(tensor_size(tensor)) + delimited_size(raw_size(tensor, items_));
    return bytes;
  }

  u8* write(u8* buffer) const {
    WireWriter out(buffer);
    out.string(1, model_.name);
    out.string(2, model_.version);
    out.string(3, context_.id);
    if (final_ != Final::kUnsaid) write_final(out, final_);
    for (const OutputTensor& tensor : tensors_) write_tensor(out, tensor);
    for (const OutputTensor& tensor : tensors_) {
      out.head(6, raw_size(tensor, items_));
      out = WireWriter(write_raw(tensor, items_, out.end()));
    }
    return out.end();
  }

 private:
  const InferContext context_;
  const ServedModel model_;
  const std::span<const ResponseView> items_;
  const OutputTensors tensors_;
  const Final final_;
};

// A ModelStreamInferResponse: an error, and the response.
size_t stream_size(std::string_view error, const Response& response) {
  return bytes_size(error.size()) + delimited_size(response.size());
}

u8* write_stream(std::string_view error, const Response& response, u8* buffer) {
  WireWriter out(buffer);
  out.string(1, error);
  out.head(2, response.size());
  return response.write(out.end());
}

ResponseView response_of(const ChunkView& chunk) {
  return {.output = Output::kGeneration, .generation = chunk.generation};
}

Final final_of(const ChunkView& chunk) {
  return chunk.generation.finish_reason == FinishReason::kUnspecified ? Final::kNo : Final::kYes;
}

}  // namespace

size_t InferWriter::room(const service::AnsweredCall& call, std::span<const ResponseView> items) const {
  return Response(call, items, Final::kUnsaid).size();
}

u8* InferWriter::write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const {
  return Response(call, items, Final::kUnsaid).write(out);
}

size_t InferStreamWriter::room(const service::AnsweredCall& call, std::span<const ResponseView> items) const {
  return stream_size({}, Response(call, items, Final::kYes));
}

u8* InferStreamWriter::write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const {
  return write_stream({}, Response(call, items, Final::kYes), out);
}

size_t InferStreamWriter::chunk_room(const service::AnsweredCall& call, const ChunkView& chunk) const {
  const ResponseView item = response_of(chunk);
  return stream_size({}, Response(call, {&item, 1}, final_of(chunk)));
}

u8* InferStreamWriter::write_chunk(const service::AnsweredCall& call, const ChunkView& chunk, u8* out) const {
  const ResponseView item = response_of(chunk);
  return write_stream({}, Response(call, {&item, 1}, final_of(chunk)), out);
}

size_t InferStreamWriter::failure_room(const service::AnsweredCall& call, std::string_view message) const {
  return stream_size(message, Response(call, {}, Final::kYes));
}

u8* InferStreamWriter::write_failure(const service::AnsweredCall& call, std::string_view message, u8* out) const {
  return write_stream(message, Response(call, {}, Final::kYes), out);
}

}  // namespace fastqps::protocols
