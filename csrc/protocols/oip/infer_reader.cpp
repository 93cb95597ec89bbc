#include "contract/fields.h"
#include "protocols/oip/infer_message.h"

namespace fastqps::protocols {

namespace {

using Kind = service::OptionValue::Kind;

// A member of the oneof of InferParameter: the last one counts.
template <u32 number, class Wire, Kind kind, auto member>
struct OneOf : Field<number, Wire, member> {
  static bool read(WireReader& in, u32, service::OptionValue& value) {
    value = {.kind = kind};
    return Wire::read(in, value.*member);
  }
};
using ValueFields = Fields<OneOf<1, Bool, Kind::kBool, &service::OptionValue::boolean>,
                           OneOf<2, Integer, Kind::kInt, &service::OptionValue::integer>,
                           OneOf<3, Bytes, Kind::kString, &service::OptionValue::text>,
                           OneOf<4, Fixed64, Kind::kDouble, &service::OptionValue::number>,
                           OneOf<5, Integer, Kind::kUint, &service::OptionValue::unsigned_integer>>;

// An entry of map<string, InferParameter>.
struct Parameter {
  std::string_view name;
  service::OptionValue value;
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
  raw_.clear();
  typed_ = 0;
  reason_ = &reason;
  FieldError error = RequestFields::parse({reinterpret_cast<const char*>(message.data()), message.size()}, *this);
  request_.set_model(model_, version_);
  request_.set_id(id_);
  if (!error) error = read_raw();
  if (!error) error = request_.finish(reason);
  // After an error, too: a stream's error names the request.
  InferContext{.outputs = request_.outputs(), .id = request_.id()}.write(context_);
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

}  // namespace fastqps::protocols
