// Faults of connections in sentences that name the options of an edge.
#pragma once
#include <string>

#include "h2client/fault.h"
#include "upstream/call_end.h"

namespace fastqps::upstream {

// tls_name: the name that the server's certificate must be for.
CallEnd end_of(const h2client::Fault& fault, const std::string& tls_name);

}  // namespace fastqps::upstream
