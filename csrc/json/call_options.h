// Options of a call that stand in a JSON body, because HTTP has no header for them.
#pragma once
#include <optional>
#include <string_view>

#include "predict/formats/options.h"

namespace fastqps::front {

// Sets priority ("low", "normal", "high") or timeout (seconds). Nothing for any other name.
std::optional<FieldError> set_call_option(std::string_view name, const OptionValue& value, RequestView& view);

}  // namespace fastqps::front
