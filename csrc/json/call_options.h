// Options of a call that can stand in a JSON body, in every protocol of HTTP.
#pragma once
#include <optional>
#include <string_view>

#include "predict/formats/options.h"

namespace fastqps::front {

// Sets priority ("low", "normal", "high"), timeout (seconds), tenant or group. Nothing for any other name.
std::optional<FieldError> set_call_option(std::string_view name, const OptionValue& value, RequestView& view);

}  // namespace fastqps::front
