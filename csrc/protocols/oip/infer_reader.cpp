#include "contract/wire.h"
#include "protocols/oip/infer_message.h"

namespace fastqps::protocols {

namespace {

constexpr const char* kDamaged = "not valid protobuf";

// InferParameter, a oneof: the last member counts.
bool read_value(std::string_view message, service::OptionValue& value) {
  using Kind = service::OptionValue::Kind;
  for (WireReader in(message); !in.done();) {
    u32 tag;
    u64 number = 0;
    if (!in.tag(&tag)) return false;
    switch (tag) {
      case varint_tag(1):
        if (!in.varint(&number)) return false;
        value = {.kind = Kind::kBool, .boolean = number != 0};
        break;
      case varint_tag(2):
        if (!in.varint(&number)) return false;
        value = {.kind = Kind::kInt, .integer = i64(number)};
        break;
      case length_tag(3):
        value = {.kind = Kind::kString};
        if (!in.bytes(&value.text)) return false;
        break;
      case fixed64_tag(4):
        value = {.kind = Kind::kDouble};
        if (!in.fixed64(&value.number)) return false;
        break;
      case varint_tag(5):
        if (!in.varint(&number)) return false;
        value = {.kind = Kind::kUint, .unsigned_integer = number};
        break;
      default:
        if (!in.skip(tag, kWireDepthMax)) return false;
    }
  }
  return true;
}

// An entry of map<string, InferParameter>.
bool read_entry(std::string_view message, std::string_view& name, service::OptionValue& value) {
  for (WireReader in(message); !in.done();) {
    u32 tag;
    std::string_view part;
    if (!in.tag(&tag)) return false;
    if (tag == length_tag(1)) {
      if (!in.bytes(&name)) return false;
    } else if (tag == length_tag(2)) {
      if (!in.bytes(&part) || !read_value(part, value)) return false;
    } else if (!in.skip(tag, kWireDepthMax)) {
      return false;
    }
  }
  return true;
}

FieldError read_tensor_parameter(std::string_view entry, const char* where, ReasonText& reason) {
  std::string_view name;
  service::OptionValue value;
  TensorParameters parameters;
  if (!read_entry(entry, name, value)) return {where, kDamaged};
  return set_tensor_parameter(name, value, where, parameters, reason);
}

bool read_shape(WireReader& in, u32 tag, InputTensor& tensor) {
  u64 value;
  if (tag == varint_tag(3)) return in.varint(&value) && (tensor.add_dimension(value), true);
  std::string_view packed;
  if (!in.bytes(&packed)) return false;
  for (WireReader run(packed); !run.done();) {
    if (!run.varint(&value)) return false;
    tensor.add_dimension(value);
  }
  return true;
}

// InferTensorContents: what text and ids can be in.
bool read_contents(std::string_view message, InputTensor& tensor) {
  for (WireReader in(message); !in.done();) {
    u32 tag;
    u64 value;
    std::string_view part;
    if (!in.tag(&tag)) return false;
    switch (tag) {
      case varint_tag(2):
      case varint_tag(3):
        if (!in.varint(&value)) return false;
        tensor.numbers.push_back(i64(value));
        break;
      case length_tag(2):
      case length_tag(3):
        if (!in.bytes(&part)) return false;
        for (WireReader run(part); !run.done();) {
          if (!run.varint(&value)) return false;
          tensor.numbers.push_back(i64(value));
        }
        break;
      case length_tag(8):
        if (!in.bytes(&part)) return false;
        tensor.texts.push_back(part);
        break;
      default:
        if (!in.skip(tag, kWireDepthMax)) return false;
    }
  }
  return true;
}

}  // namespace

FieldError InferReader::read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) {
  request_.clear();
  inputs_.clear();
  raw_.clear();
  typed_ = 0;
  const std::string_view bytes{reinterpret_cast<const char*>(message.data()), message.size()};
  FieldError error = read_fields(bytes, reason);
  if (!error) error = read_raw(reason);
  if (!error) error = request_.finish(reason);
  // After an error, too: a stream's error names the request.
  InferContext{.outputs = request_.outputs(), .id = request_.id()}.write(context_);
  return error;
}

FieldError InferReader::read_fields(std::string_view message, ReasonText& reason) {
  for (WireReader in(message); !in.done();) {
    u32 tag;
    std::string_view part;
    if (!in.tag(&tag)) return {"", kDamaged};
    if (WireType(tag & 7) != WireType::kLength || tag > length_tag(7)) {
      if (!in.skip(tag, kWireDepthMax)) return {"", kDamaged};
      continue;
    }
    if (!in.bytes(&part)) return {"", kDamaged};
    FieldError error;
    switch (tag) {
      case length_tag(1):
        request_.set_model(part);
        break;
      case length_tag(2):
        request_.set_version(part);
        break;
      case length_tag(3):
        request_.set_id(part);
        break;
      case length_tag(4): {
        std::string_view name;
        service::OptionValue value;
        error = read_entry(part, name, value) ? request_.set(name, value, reason) : FieldError{"parameters", kDamaged};
        break;
      }
      case length_tag(5):
        error = read_input(part, reason);
        break;
      case length_tag(6):
        error = read_output(part, reason);
        break;
      case length_tag(7):
        raw_.push_back(part);
        break;
    }
    if (error) return error;
  }
  return {};
}

// The name may stand behind the other fields, so it is looked for first.
FieldError InferReader::read_input(std::string_view message, ReasonText& reason) {
  std::string_view name;
  for (WireReader in(message); !in.done();) {
    u32 tag;
    if (!in.tag(&tag) || !(tag == length_tag(1) ? in.bytes(&name) : in.skip(tag, kWireDepthMax)))
      return {"inputs", kDamaged};
  }
  FieldError error;
  InputTensor* tensor = request_.open_input(name, error, reason);
  if (!tensor) return error;
  inputs_.push_back(tensor);
  bool typed = false;
  for (WireReader in(message); !in.done();) {
    u32 tag;
    std::string_view part;
    bool ok = in.tag(&tag);
    if (ok && (tag == varint_tag(3) || tag == length_tag(3))) {
      ok = read_shape(in, tag, *tensor);
    } else if (ok && tag == length_tag(4)) {
      if (!in.bytes(&part)) return {"inputs", kDamaged};
      if (error = read_tensor_parameter(part, "inputs", reason); error) return error;
    } else if (ok && tag == length_tag(2)) {
      ok = in.bytes(&tensor->datatype);
    } else if (ok && tag == length_tag(5)) {
      ok = in.bytes(&part) && read_contents(part, *tensor);
      typed = true;
    } else if (ok) {
      ok = in.skip(tag, kWireDepthMax);
    }
    if (!ok) return {"inputs", kDamaged};
  }
  typed_ += typed;
  return {};
}

FieldError InferReader::read_output(std::string_view message, ReasonText& reason) {
  std::string_view name;
  for (WireReader in(message); !in.done();) {
    u32 tag;
    std::string_view part;
    if (!in.tag(&tag)) return {"outputs", kDamaged};
    if (tag == length_tag(2)) {
      if (!in.bytes(&part)) return {"outputs", kDamaged};
      if (const FieldError error = read_tensor_parameter(part, "outputs", reason)) return error;
    } else if (!(tag == length_tag(1) ? in.bytes(&name) : in.skip(tag, kWireDepthMax))) {
      return {"outputs", kDamaged};
    }
  }
  OutputBit bit;
  return request_.ask_for(name, bit, reason);
}

// raw_input_contents holds the contents of all inputs, in their order, or of none.
FieldError InferReader::read_raw(ReasonText& reason) {
  if (raw_.empty()) return {};
  if (typed_) return {"raw_input_contents", "must be empty if an input has contents"};
  if (raw_.size() != inputs_.size())
    return {"raw_input_contents", reason.print("%zu, but there are %zu inputs", raw_.size(), inputs_.size())};
  for (size_t i = 0; i < raw_.size(); i++) {
    if (!inputs_[i]->read_raw(raw_[i]))
      return {"raw_input_contents", reason.print("those of input %zu end inside an element", i)};
  }
  return {};
}

}  // namespace fastqps::protocols
