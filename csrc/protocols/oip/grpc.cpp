// Inference over gRPC: ModelInferRequest, ModelInferResponse and ModelStreamInferResponse, read and written in place.
#include "contract/fields.h"
#include "protocols/oip/open_inference.h"

namespace fastqps::protocols {

namespace {

using Kind = OptionValue::Kind;

// A member of the oneof of InferParameter: the last one counts.
template <u32 number, class Wire, Kind kind, auto member>
struct OneOf : Field<number, Wire, member> {
  static bool read(WireReader& in, u32, OptionValue& value) {
    value = {.kind = kind};
    return Wire::read(in, value.*member);
  }
};
using ValueFields =
    Fields<OneOf<1, Bool, Kind::kBool, &OptionValue::boolean>, OneOf<2, Integer, Kind::kInt, &OptionValue::integer>,
           OneOf<3, Bytes, Kind::kString, &OptionValue::text>, OneOf<4, Fixed64, Kind::kDouble, &OptionValue::number>,
           OneOf<5, Integer, Kind::kUint, &OptionValue::unsigned_integer>>;

// An entry of map<string, InferParameter>.
struct Parameter {
  std::string_view name;
  OptionValue value;
};
using ParameterFields = Fields<Field<1, Bytes, &Parameter::name>, Field<2, Submessage<ValueFields>, &Parameter::value>>;

// InferTensorContents: the members that text and ids can be in.
using ContentsFields =
    Fields<Field<2, Repeated<Integer>, &InputTensor::numbers>, Field<3, Repeated<Integer>, &InputTensor::numbers>,
           Field<8, Repeated<Bytes>, &InputTensor::texts>>;

}  // namespace

FieldError InferReader::read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) {
  using RequestFields = Fields<Field<1, Bytes, &InferReader::model_>, Field<2, Bytes, &InferReader::version_>,
                               Field<3, Bytes, &InferReader::id_>, Part<4, &InferReader::read_parameter>,
                               Part<5, &InferReader::read_input>, Part<6, &InferReader::read_output>,
                               Field<7, Repeated<Bytes>, &InferReader::raw_>>;
  request_.clear();
  model_ = version_ = id_ = {};
  inputs_.clear();
  empty(raw_);
  typed_ = 0;
  reason_ = &reason;
  FieldError error = RequestFields::parse({reinterpret_cast<const char*>(message.data()), message.size()}, *this);
  request_.set_model(model_, version_);
  request_.set_id(id_);
  if (!error) error = read_raw();
  if (!error) error = request_.finish(reason);
  // After an error, too: a stream's error names the request.
  InferContext{.outputs = request_.outputs(), .choices = request_.choices(), .id = request_.id()}.write(context_);
  return error;
}

FieldError InferReader::read_parameter(std::string_view entry) {
  Parameter parameter;
  if (!ParameterFields::read(entry, parameter)) return {"parameters", kDamaged};
  return request_.set(parameter.name, parameter.value, *reason_);
}

FieldError InferReader::check_parameters(const NamedTensor& tensor, const char* where) {
  for (const std::string_view entry : tensor.parameters) {
    Parameter parameter;
    TensorParameters ignored;
    if (!ParameterFields::read(entry, parameter)) return {where, kDamaged};
    if (const FieldError error = set_tensor_parameter(parameter.name, parameter.value, where, ignored, *reason_))
      return error;
  }
  return {};
}

FieldError InferReader::Input::read_contents(std::string_view contents) {
  typed = true;
  return ContentsFields::parse(contents, *this, "inputs");
}

FieldError InferReader::read_input(std::string_view message) {
  using InputFields = Fields<Field<1, Bytes, &Input::name>, Field<2, Bytes, &Input::datatype>,
                             Field<3, Repeated<Integer>, &Input::shape>, Field<4, Repeated<Bytes>, &Input::parameters>,
                             Part<5, &Input::read_contents>>;
  input_.clear();
  FieldError error = InputFields::parse(message, input_, "inputs");
  if (error) return error;
  InputTensor* tensor = request_.open_input(input_.name, error, *reason_);
  if (!tensor) return error;
  input_.given = true;
  std::swap<InputTensor>(*tensor, input_);  // each keeps memory for the next request
  inputs_.push_back(tensor);
  typed_ += input_.typed;
  return check_parameters(input_, "inputs");
}

FieldError InferReader::read_output(std::string_view message) {
  using OutputFields = Fields<Field<1, Bytes, &NamedTensor::name>, Field<2, Repeated<Bytes>, &NamedTensor::parameters>>;
  NamedTensor output;
  if (const FieldError error = OutputFields::parse(message, output, "outputs")) return error;
  if (const FieldError error = check_parameters(output, "outputs")) return error;
  OutputBit bit;
  return request_.ask_for(output.name, bit, *reason_);
}

// raw_input_contents holds the contents of all inputs, in their order, or of none.
FieldError InferReader::read_raw() {
  if (raw_.empty()) return {};
  if (typed_) return {"raw_input_contents", "must be empty if an input has contents"};
  if (raw_.size() != inputs_.size())
    return {"raw_input_contents", reason_->print("%zu, but there are %zu inputs", raw_.size(), inputs_.size())};
  for (size_t i = 0; i < raw_.size(); i++) {
    if (!inputs_[i]->read_raw(raw_[i]))
      return {"raw_input_contents", reason_->print("those of input %zu end inside an element", i)};
  }
  return {};
}

// ---- answers

namespace {

using Items = std::span<const ResponseView>;

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

struct Shape : Packed {
  static size_t size(const OutputTensor& tensor) { return Packed::size(tensor.sizes()); }
  static void write(WireWriter& out, u32 field, const OutputTensor& tensor) {
    Packed::write(out, field, tensor.sizes());
  }
};
struct Pointed : Bytes {
  static size_t size(const std::string_view* text) { return Bytes::size(*text); }
  static void write(WireWriter& out, u32 field, const std::string_view* text) { Bytes::write(out, field, *text); }
};
using OutputFields =
    Fields<Field<1, Pointed, &OutputTensor::name>, Field<2, Pointed, &OutputTensor::datatype>, Field<3, Shape>>;
using Outputs = Repeated<Submessage<OutputFields>>;

// A ModelInferResponse. items: none of a failure.
class Response {
 public:
  Response(const service::AnsweredCall& call, std::span<const ResponseView> items, Final final)
      : context_(InferContext::read(call.context)),
        model_(served_model(call.model_version)),
        chosen_(context_.choices, items),
        items_(chosen_.all()),
        tensors_(context_.outputs, items_, context_.choices.n),
        final_(final) {}

  size_t size() const {
    size_t bytes = bytes_size(model_.name.size()) + bytes_size(model_.version.size()) + bytes_size(context_.id.size());
    if (final_ != Final::kUnsaid) bytes += delimited_size(final_size());
    for (const OutputTensor& tensor : tensors_) bytes += delimited_size(raw_size(tensor, items_));
    return bytes + Outputs::size(tensors_);
  }

  u8* write(u8* buffer) const {
    WireWriter out(buffer);
    out.string(1, model_.name);
    out.string(2, model_.version);
    out.string(3, context_.id);
    if (final_ != Final::kUnsaid) write_final(out, final_);
    Outputs::write(out, 5, tensors_);
    for (const OutputTensor& tensor : tensors_) {
      out.head(6, raw_size(tensor, items_));
      out = WireWriter(write_raw(tensor, items_, out.end()));
    }
    return out.end();
  }

 private:
  const InferContext context_;
  const ServedModel model_;
  const ChosenItems chosen_;
  const Items items_;
  const OutputTensors tensors_;
  const Final final_;
};

size_t infer_room(const service::AnsweredCall& call, Items items) {
  return Response(call, items, Final::kUnsaid).size();
}
u8* write_infer(const service::AnsweredCall& call, Items items, u8* out) {
  return Response(call, items, Final::kUnsaid).write(out);
}
const service::PlainWriter<infer_room, write_infer, service::kInferFields> infer_writer;

// ModelStreamInferResponse: an error, and the response.
class InferStreamWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, Items items) const override {
    return size({}, Response(call, items, Final::kYes));
  }
  u8* write(const service::AnsweredCall& call, Items items, u8* out) const override {
    return write({}, Response(call, items, Final::kYes), out);
  }
  size_t chunk_room(const service::AnsweredCall& call, const ChunkView& chunk) const override {
    const ResponseView item = response_of(chunk);
    return size({}, Response(call, {&item, 1}, final_of(chunk)));
  }
  u8* write_chunk(const service::AnsweredCall& call, const ChunkView& chunk, u8* out) const override {
    const ResponseView item = response_of(chunk);
    return write({}, Response(call, {&item, 1}, final_of(chunk)), out);
  }
  size_t failure_room(const service::AnsweredCall& call, std::string_view message) const override {
    return size(message, Response(call, {}, Final::kYes));
  }
  u8* write_failure(const service::AnsweredCall& call, std::string_view message, u8* out) const override {
    return write(message, Response(call, {}, Final::kYes), out);
  }
  const service::FieldNames* fields() const override { return &service::kInferFields; }

 private:
  static size_t size(std::string_view error, const Response& response) {
    return bytes_size(error.size()) + delimited_size(response.size());
  }
  static u8* write(std::string_view error, const Response& response, u8* buffer) {
    WireWriter out(buffer);
    out.string(1, error);
    out.head(2, response.size());
    return response.write(out.end());
  }
  static ResponseView response_of(const ChunkView& chunk) {
    return {.output = Output::kGeneration, .generation = chunk.generation};
  }
  static Final final_of(const ChunkView& chunk) {
    return chunk.generation.finish_reason == FinishReason::kUnspecified ? Final::kNo : Final::kYes;
  }
};
const InferStreamWriter infer_stream_writer;

}  // namespace

const service::AnswerWriter &kInferWriter = infer_writer, &kInferStreamWriter = infer_stream_writer;

}  // namespace fastqps::protocols
