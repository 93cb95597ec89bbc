// How much a connection may lose its place to a newcomer when all are taken.
#pragma once
#include "contract/types.h"

namespace fastqps::transport {

struct PlaceClaim {
  // From the weakest to the strongest.
  enum class Kind : u8 {
    kStranger,  // has asked nothing that its token, if one is needed, allows
    kIdle,      // between its calls
    kSlow,      // calls wait for the client: for the rest of a request, or until it reads an answer
    kServed,    // the server owes it an answer: keeps its place
  } kind;
  u64 since_ns = 0;
};

}  // namespace fastqps::transport
