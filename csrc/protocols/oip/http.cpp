// Inference over HTTP: requests and responses in JSON, with the contents of tensors in it or, by the protocol's binary
// extension, behind it.
#include <utility>

#include "contract/quantize.h"
#include "protocols/json/json_body.h"
#include "protocols/oip/open_inference.h"
#include "protocols/oip/output_tensors.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

// A datatype that no input has is refused later, so its elements are not looked at.
FieldError read_element(const JsonValue& value, InputTensor& tensor, ReasonText& reason) {
  if (tensor.holds_text()) {
    if (!value.is_string())
      return {"inputs",
              reason.print("element %zu of the data of a BYTES tensor must be a string", tensor.texts.size())};
    tensor.texts.push_back(std::string_view(value));
  } else if (tensor.datatype == "INT32" || tensor.datatype == "INT64") {
    i64 number;
    if (value.get(number))
      return {"inputs", reason.print("element %zu of the data of an INT32 or INT64 tensor must be an integer",
                                     tensor.numbers.size())};
    tensor.numbers.push_back(number);
  }
  return {};
}

// Reads an array of integers.
FieldError read_json_shape(const JsonValue& value, InputTensor& tensor) {
  constexpr FieldError kWrong{"inputs", "a shape must be an array of integers, 0 or more"};
  JsonArray sizes;
  if (value.get(sizes)) return kWrong;
  for (const JsonValue& each : sizes) {
    u64 size;
    if (each.get(size)) return kWrong;
    tensor.shape.push_back(size);
  }
  return {};
}

// Reads the elements, flat or row by row, into the tensor, whose datatype and shape are known. Strings are valid until
// the next body.
FieldError read_json_data(const JsonValue& value, InputTensor& tensor, ReasonText& reason) {
  JsonArray data;
  if (value.get(data)) return {"inputs", "data must be an array"};
  if (data.begin() == data.end()) return {};
  const bool nested = (*data.begin()).is_array();
  for (const JsonValue& each : data) {
    if (each.is_array() != nested) return {"inputs", "data must be flat, or an array of rows"};
    if (!nested) {
      if (const FieldError error = read_element(each, tensor, reason)) return error;
      continue;
    }
    size_t columns = 0;
    for (const JsonValue& element : JsonArray(each)) {
      if (const FieldError error = read_element(element, tensor, reason)) return error;
      columns++;
    }
    if (tensor.shape.size() != 2 || columns != tensor.shape[1])
      return {"inputs", reason.print("a row of data has %zu elements, which its shape does not say", columns)};
  }
  return {};
}

std::string_view as_text(std::span<const u8> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Calls read(name, value) for each parameter that is set.
template <class Read>
FieldError each_parameter(const JsonValue& value, const char* where, OptionLists& lists, Read read) {
  JsonObject parameters;
  if (value.get(parameters)) return {where, "parameters must be an object"};
  for (const auto [name, parameter] : parameters) {
    if (parameter.is_null()) continue;
    if (const FieldError error = read(name, option_value(parameter, lists))) return error;
  }
  return {};
}

template <class Read>
FieldError each_object(const JsonValue& value, const char* where, Read read) {
  constexpr const char* kWrong = "must be an array of objects";
  JsonArray objects;
  if (value.get(objects)) return {where, kWrong};
  for (const JsonValue& each : objects) {
    JsonObject one;
    if (each.get(one)) return {where, kWrong};
    if (const FieldError error = read(one)) return error;
  }
  return {};
}

}  // namespace

FieldError HttpInferReader::read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) {
  request_.clear();
  form_given_ = binary_outputs_ = 0;
  binary_by_default_ = false;
  const transport::HttpRequest& http = *info.http;
  request_.set_model(http.parameters[0], http.parameter_count > 1 ? http.parameters[1] : std::string_view());
  const u64 json = http.header_length == transport::kNoHeaderLength ? message.size() : u64(http.header_length);
  if (json > message.size())
    return {"Inference-Header-Content-Length",
            reason.print("%llu, but the body has %zu bytes", (unsigned long long)json, message.size())};
  binary_ = as_text(message.subspan(json));
  const FieldError wrong =
      body_.each_field(message.first(json), reason,
                       [&](std::string_view name, const JsonValue& value) { return read_field(name, value, reason); });
  if (wrong) return wrong;
  if (!binary_.empty()) return {"", reason.print("%zu bytes behind the JSON belong to no input", binary_.size())};
  if (const FieldError error = request_.finish(reason)) return error;
  const OutputSet binary = binary_outputs_ | (binary_by_default_ ? OutputSet(~form_given_) : OutputSet(0));
  if (request_.half_precision() & ~binary)
    return {"parameters", "datatype FP16 has no form in JSON: ask for binary_data_output, too"};
  InferContext{request_.outputs(), binary, request_.choices(), request_.id()}.write(context_);
  return {};
}

// Other fields are skipped, as an unknown field of a message over gRPC is.
FieldError HttpInferReader::read_field(std::string_view name, const JsonValue& value, ReasonText& reason) {
  if (value.is_null()) return {};  // clients send null for what is not set
  if (name == "parameters") return read_parameters(value, reason);
  if (name == "inputs")
    return each_object(value, "inputs", [&](const JsonObject& input) { return read_input(input, reason); });
  if (name == "outputs")
    return each_object(value, "outputs", [&](const JsonObject& output) { return read_output(output, reason); });
  if (name != "id") return {};
  if (!value.is_string()) return {"id", "must be a string"};
  request_.set_id(std::string_view(value));
  return {};
}

FieldError HttpInferReader::read_parameters(const JsonValue& value, ReasonText& reason) {
  return each_parameter(
      value, "parameters", request_.lists(), [&](std::string_view name, const OptionValue& option) -> FieldError {
        if (name != "binary_data_output") return request_.set(name, option, reason);
        const char* why = service::to_bool(option, &binary_by_default_);
        return why ? FieldError{"parameters", reason.print("binary_data_output %s", why)} : FieldError{};
      });
}

FieldError HttpInferReader::read_input(const JsonObject& input, ReasonText& reason) {
  std::string_view name;
  if (input["name"].get(name)) return {"inputs", "each must have a name, a string"};
  FieldError error;
  InputTensor* tensor = request_.open_input(name, error, reason);
  if (!tensor) return error;
  if (input["datatype"].get(tensor->datatype)) return {"inputs", "each must have a datatype, a string"};
  JsonValue value;
  if (input["shape"].get(value)) return {"inputs", "each must have a shape, an array of integers"};
  if (error = read_json_shape(value, *tensor); error) return error;
  TensorParameters parameters;
  if (!input["parameters"].get(value) && !value.is_null()) {
    error =
        each_parameter(value, "inputs", request_.lists(), [&](std::string_view parameter, const OptionValue& option) {
          return set_tensor_parameter(parameter, option, "inputs", parameters, reason);
        });
    if (error) return error;
  }
  const bool has_data = !input["data"].get(value) && !value.is_null();
  return read_contents(has_data ? &value : nullptr, parameters, *tensor, reason);
}

FieldError HttpInferReader::read_contents(const JsonValue* data, const TensorParameters& parameters,
                                          InputTensor& tensor, ReasonText& reason) {
  if (!parameters.binary_data_size) return data ? read_json_data(*data, tensor, reason) : FieldError{};
  if (data) return {"inputs", "an input has either data or binary_data_size"};
  const u64 bytes = *parameters.binary_data_size;
  if (bytes > binary_.size())
    return {"inputs", reason.print("binary_data_size %llu, but %zu bytes are left behind the JSON",
                                   (unsigned long long)bytes, binary_.size())};
  if (!tensor.read_raw(binary_.substr(0, bytes))) return {"inputs", "binary data that end inside an element"};
  binary_.remove_prefix(bytes);
  return {};
}

FieldError HttpInferReader::read_output(const JsonObject& output, ReasonText& reason) {
  std::string_view name;
  if (output["name"].get(name)) return {"outputs", "each must have a name, a string"};
  OutputBit bit;
  if (const FieldError error = request_.ask_for(name, bit, reason)) return error;
  JsonValue value;
  if (output["parameters"].get(value) || value.is_null()) return {};
  TensorParameters parameters;
  const FieldError error =
      each_parameter(value, "outputs", request_.lists(), [&](std::string_view parameter, const OptionValue& option) {
        return set_tensor_parameter(parameter, option, "outputs", parameters, reason);
      });
  if (error) return error;
  if (!parameters.binary_data) return {};
  form_given_ |= bit;
  binary_outputs_ = OutputSet(*parameters.binary_data ? binary_outputs_ | bit : binary_outputs_ & ~bit);
  return {};
}

// ---- answers

namespace {

using Items = std::span<const ResponseView>;
using transport::JsonWriter;

constexpr size_t kTensorBytes = 160;  // more than all around a tensor's data, numbers included
constexpr size_t kAround = 128;       // more than all around the tensors but the names

struct JsonResponse {
  JsonResponse(const service::AnsweredCall& call, Items items)
      : context(InferContext::read(call.context)),
        model(served_model(call.model_version)),
        chosen(context.choices, items),
        tensors(context.outputs, chosen.all(), context.choices.n) {}

  Items items() const { return chosen.all(); }
  bool is_binary(const OutputTensor& tensor) const { return context.binary & tensor.bit; }
  size_t binary_size() const {
    size_t bytes = 0;
    for (const OutputTensor& tensor : tensors) bytes += is_binary(tensor) ? raw_size(tensor, items()) : 0;
    return bytes;
  }

  const InferContext context;
  const ServedModel model;
  const ChosenItems chosen;
  const OutputTensors tensors;
};

struct JsonRoom {
  size_t room = 2;

  void floats(std::span<const float> values) { room += JsonWriter::floats_room(values.size()); }
  void bytes(std::span<const u8> values, DType) { room += JsonWriter::bytes_room(values.size()) + 1; }
  void integer(u32) { room += JsonWriter::kIntegerBytes + 1; }
  void text(std::string_view value) { room += JsonWriter::string_room(value.size()) + 1; }
  void scores(const ResponseView&, u64 count) { room += JsonWriter::floats_room(count); }
};

// A flat array.
struct JsonElements {
  JsonWriter& out;
  bool first = true;
  std::vector<float> scratch = {};

  JsonWriter& next() { return std::exchange(first, false) ? out : out.raw(","); }
  void floats(std::span<const float> values) {
    if (!values.empty()) next().elements(values);
  }
  void bytes(std::span<const u8> values, DType dtype) { next().bytes(values, is_signed(dtype)); }
  void integer(u32 value) { next().number(u64(value)); }
  void text(std::string_view value) { next().string(value); }
  void scores(const ResponseView& item, u64 count) {
    scratch.resize(count);
    write_scores(item, scratch);
    floats(scratch);
  }
};

size_t data_room(const OutputTensor& tensor, Items items) {
  JsonRoom sink;
  each_element(tensor, items, sink);
  return sink.room;
}

void write_data(JsonWriter& out, const OutputTensor& tensor, Items items) {
  JsonElements sink{out};
  out.raw("[");
  each_element(tensor, items, sink);
  out.raw("]");
}

void write_head(JsonWriter& out, const OutputTensor& tensor) {
  out.raw(R"({"name":)").string(*tensor.name).raw(R"(,"datatype":)").string(*tensor.datatype).raw(R"(,"shape":[)");
  for (u32 i = 0; i < tensor.dimensions; i++) out.raw(i ? "," : "").number(tensor.shape[i]);
  out.raw("]");
}

class HttpInferWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, Items all) const override {
    const JsonResponse response(call, all);
    const Items items = response.items();
    size_t room = kAround;
    for (const std::string_view text : {response.model.name, response.model.version, response.context.id})
      room += JsonWriter::string_room(text.size());
    for (const OutputTensor& tensor : response.tensors)
      room += kTensorBytes + (response.is_binary(tensor) ? raw_size(tensor, items) : data_room(tensor, items));
    return room;
  }

  u8* write(const service::AnsweredCall& call, Items all, u8* buffer) const override {
    const JsonResponse response(call, all);
    const Items items = response.items();
    JsonWriter out(buffer);
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

  transport::HttpReply reply(const service::AnsweredCall& call, Items items, size_t bytes) const override {
    if (!InferContext::read(call.context).binary) return {};
    const JsonResponse response(call, items);
    for (const OutputTensor& tensor : response.tensors)
      if (response.is_binary(tensor))
        return {.type = transport::ContentType::kBinary, .header_length = i64(bytes - response.binary_size())};
    return {};
  }
  const service::FieldNames* fields() const override { return &service::kInferFields; }
};
const HttpInferWriter http_infer_writer;

}  // namespace

const service::AnswerWriter& kHttpInferWriter = http_infer_writer;

}  // namespace fastqps::protocols
