// Options of a call that stand in a JSON body, because HTTP has no header for them.
#pragma once
#include <string_view>

#include "predict/formats/options.h"

namespace fastqps::front {

// Sets priority ("low", "normal", "high") or timeout (seconds). *why: the reason of a refusal.
OptionSet set_call_option(std::string_view name, const OptionValue& value, RequestView& view, const char** why);

}  // namespace fastqps::front
