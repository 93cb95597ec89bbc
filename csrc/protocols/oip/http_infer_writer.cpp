#include <vector>

#include "protocols/oip/http_infer.h"
#include "protocols/oip/infer_message.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

constexpr size_t kTensorBytes = 160;  // more than all around a tensor's data, numbers included
constexpr size_t kAround = 128;       // more than all around the tensors but the names

struct JsonResponse {
  JsonResponse(const service::AnsweredCall& call, std::span<const ResponseView> items)
      : context(InferContext::read(call.context)),
        model(served_model(call.model_version)),
        tensors(context.outputs, items) {}

  bool is_binary(const OutputTensor& tensor) const { return context.binary & tensor.bit; }
  size_t binary_size(std::span<const ResponseView> items) const {
    size_t bytes = 0;
    for (const OutputTensor& tensor : tensors) bytes += is_binary(tensor) ? raw_size(tensor, items) : 0;
    return bytes;
  }

  const InferContext context;
  const ServedModel model;
  const OutputTensors tensors;
};

size_t data_room(const OutputTensor& tensor, std::span<const ResponseView> items) {
  size_t room = 2;
  for (const ResponseView& item : items) {
    if (tensor.bit == kOutEmbedding) {
      room += transport::JsonWriter::floats_room(item.embedding.values.size());
    } else if (tensor.bit == kOutScores) {
      room += transport::JsonWriter::floats_room(tensor.shape[1]);
    } else {
      room += transport::JsonWriter::string_room(output_text(tensor, item).size()) + 1;
    }
  }
  return room;
}

// A flat array.
void write_data(transport::JsonWriter& out, const OutputTensor& tensor, std::span<const ResponseView> items) {
  std::vector<float> scores(tensor.bit == kOutScores ? tensor.shape[1] : 0);
  out.raw("[");
  for (size_t i = 0; i < items.size(); i++) {
    if (i) out.raw(",");
    if (tensor.bit == kOutEmbedding) {
      out.elements(items[i].embedding.values);
    } else if (tensor.bit == kOutScores) {
      write_scores(items[i], scores);
      out.elements(scores);
    } else {
      out.string(output_text(tensor, items[i]));
    }
  }
  out.raw("]");
}

void write_head(transport::JsonWriter& out, const OutputTensor& tensor) {
  out.raw(R"({"name":)").string(tensor.name).raw(R"(,"datatype":)").string(tensor.datatype).raw(R"(,"shape":[)");
  for (u32 i = 0; i < tensor.dimensions; i++) out.raw(i ? "," : "").number(tensor.shape[i]);
  out.raw("]");
}

}  // namespace

size_t HttpInferWriter::room(const service::AnsweredCall& call, std::span<const ResponseView> items) const {
  const JsonResponse response(call, items);
  size_t room = kAround;
  for (const std::string_view text : {response.model.name, response.model.version, response.context.id})
    room += transport::JsonWriter::string_room(text.size());
  for (const OutputTensor& tensor : response.tensors)
    room += kTensorBytes + (response.is_binary(tensor) ? raw_size(tensor, items) : data_room(tensor, items));
  return room;
}

u8* HttpInferWriter::write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* buffer) const {
  const JsonResponse response(call, items);
  transport::JsonWriter out(buffer);
  out.raw(R"({"model_name":)").string(response.model.name);
  out.raw(R"(,"model_version":)").string(response.model.version);
  if (!response.context.id.empty()) out.raw(R"(,"id":)").string(response.context.id);
  out.raw(R"(,"outputs":[)");
  for (const OutputTensor& tensor : response.tensors) {
    if (&tensor != response.tensors.begin()) out.raw(",");
    write_head(out, tensor);
    if (response.is_binary(tensor)) {
      out.raw(R"(,"parameters":{"binary_data_size":)").number(u64(raw_size(tensor, items))).raw("}}");
    } else {
      out.raw(R"(,"data":)");
      write_data(out, tensor, items);
      out.raw("}");
    }
  }
  u8* end = out.raw("]}").end();
  for (const OutputTensor& tensor : response.tensors)
    if (response.is_binary(tensor)) end = write_raw(tensor, items, end);
  return end;
}

transport::HttpReply HttpInferWriter::reply(const service::AnsweredCall& call, std::span<const ResponseView> items,
                                            size_t bytes) const {
  if (!InferContext::read(call.context).binary) return {};
  const JsonResponse response(call, items);
  for (const OutputTensor& tensor : response.tensors)
    if (response.is_binary(tensor))
      return {.type = transport::ContentType::kBinary, .header_length = i64(bytes - response.binary_size(items))};
  return {};
}

}  // namespace fastqps::protocols
