// The parameters of an inference request, by name: options of fastqps in the form of the Open Inference Protocol.
#pragma once
#include <string_view>

#include "wire/request_view.h"

namespace fastqps::front {

// A parameter's value as its client sent it. A string is valid as long as the message.
struct ParameterValue {
  enum class Kind : u8 { kNone, kBool, kInt, kUint, kDouble, kString } kind = Kind::kNone;
  bool boolean = false;
  i64 integer = 0;
  u64 unsigned_integer = 0;
  double number = 0;
  std::string_view text = {};
};

// Writes one parameter into the view that all items of the request share. An unknown name, or a value of a wrong kind
// or range, is an error. stop: where a stop string goes; the view then refers to it.
FieldError set_parameter(std::string_view name, const ParameterValue& value, RequestView& view, std::string_view* stop,
                         ReasonText& reason);

}  // namespace fastqps::front
