#include "oip/http/tensor_data.h"

namespace fastqps::front {

namespace {

// A datatype that no input has is refused later, so its elements are not looked at.
FieldError read_element(const simdjson::dom::element& value, InputTensor& tensor, ReasonText& reason) {
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

}  // namespace

FieldError read_json_shape(const simdjson::dom::element& value, InputTensor& tensor) {
  constexpr FieldError kWrong{"inputs", "a shape must be an array of integers, 0 or more"};
  simdjson::dom::array sizes;
  if (value.get(sizes)) return kWrong;
  for (const simdjson::dom::element& each : sizes) {
    u64 size;
    if (each.get(size)) return kWrong;
    tensor.add_dimension(size);
  }
  return {};
}

FieldError read_json_data(const simdjson::dom::element& value, InputTensor& tensor, ReasonText& reason) {
  simdjson::dom::array data;
  if (value.get(data)) return {"inputs", "data must be an array"};
  if (data.begin() == data.end()) return {};
  const bool nested = (*data.begin()).is_array();
  for (const simdjson::dom::element& each : data) {
    if (each.is_array() != nested) return {"inputs", "data must be flat, or an array of rows"};
    if (!nested) {
      if (const FieldError error = read_element(each, tensor, reason)) return error;
      continue;
    }
    size_t columns = 0;
    for (const simdjson::dom::element& element : simdjson::dom::array(each)) {
      if (const FieldError error = read_element(element, tensor, reason)) return error;
      columns++;
    }
    if (tensor.dimensions != 2 || columns != tensor.shape[1])
      return {"inputs", reason.print("a row of data has %zu elements, which its shape does not say", columns)};
  }
  return {};
}

}  // namespace fastqps::front
