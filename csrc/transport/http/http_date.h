// The Date header.
#pragma once
#include <string_view>

#include "contract/types.h"

namespace fastqps::transport {

// "Sun, 06 Nov 1994 08:49:37 GMT". now_ns: the loop's clock, which says whether a second has passed. Valid until the
// next call of this thread.
std::string_view http_date(u64 now_ns);

}  // namespace fastqps::transport
