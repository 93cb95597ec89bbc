// Where a JSON body has a string that is no text, for the message of its refusal.
#pragma once
#include <span>
#include <string>

#include "core/types.h"

namespace fastqps::front {

// The path of the first string that holds half of a surrogate pair or damaged UTF-8, such as `inputs[3]`; empty if
// there is none. body: JSON that simdjson has refused.
std::string bad_string(std::span<const u8> body);

}  // namespace fastqps::front
