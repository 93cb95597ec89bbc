// The contents of an input as JSON has them.
#pragma once
#include "json/json_body.h"
#include "oip/input_tensor.h"

namespace fastqps::front {

// Reads an array of integers.
FieldError read_json_shape(const simdjson::dom::element& value, InputTensor& tensor);

// Reads the elements, flat or row by row, into the tensor, whose datatype and shape are known. Strings are valid until
// the next body.
FieldError read_json_data(const simdjson::dom::element& value, InputTensor& tensor, ReasonText& reason);

}  // namespace fastqps::front
