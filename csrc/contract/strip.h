// Characters off the ends of texts, as Python's str.strip takes them.
#pragma once
#include <string_view>

#include "contract/utf8.h"

namespace fastqps {

// What str.strip() takes off without an argument.
inline constexpr std::string_view kPythonSpaces =
    "\t\n\v\f\r\x1c\x1d\x1e\x1f "
    "\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f"
    "\u3000";

// The text without those of `characters` that it begins with, or ends with.
std::string_view strip_begin(std::string_view text, std::string_view characters);
std::string_view strip_end(std::string_view text, std::string_view characters);

}  // namespace fastqps
