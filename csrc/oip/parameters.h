// The parameters of an inference request, by name: options of fastqps in the form of the Open Inference Protocol.
#pragma once
#include "predict/formats/options.h"

namespace fastqps::front {

// Writes one parameter into the view that all items of the request share. An unknown name, or a value of a wrong kind
// or range, is an error. stop: where a stop string goes; the view then refers to it.
FieldError set_parameter(std::string_view name, const OptionValue& value, RequestView& view, std::string_view* stop,
                         ReasonText& reason);

}  // namespace fastqps::front
