// The parameters of an inference request, by name: options of fastqps in the form of the Open Inference Protocol.
#pragma once
#include <optional>
#include <string_view>

#include "predict/formats/options.h"

namespace fastqps::front {

// What the parameters of a tensor say that concerns this server.
struct TensorParameters {
  std::optional<u64> binary_data_size;  // HTTP: the contents are so many bytes behind the JSON
  std::optional<bool> binary_data;      // HTTP: the output is to be sent behind the JSON
};

// Reads one parameter of an input or of a requested output. where: "inputs" or "outputs", for errors. An unknown name
// is ignored, as clients annotate tensors for themselves; what Triton has and this server has not is an error.
FieldError set_tensor_parameter(std::string_view name, const OptionValue& value, const char* where,
                                TensorParameters& parameters, ReasonText& reason);

// Writes one parameter of a request into the view that all items of the request share. An unknown name, or a value of a
// wrong kind or range, is an error. lists: what the view's lists refer to.
FieldError set_parameter(std::string_view name, const OptionValue& value, RequestView& view, OptionLists& lists,
                         ReasonText& reason);

}  // namespace fastqps::front
