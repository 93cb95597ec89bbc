// The listening sockets of a front door, and so the kinds of its connections.
#pragma once
#include "contract/types.h"

namespace fastqps::transport {

enum class Entrance : u8 {
  kGrpc,
  kHttp,      // plain HTTP
  kInternal,  // gRPC of this server itself, without TLS and without tokens
};

}  // namespace fastqps::transport
