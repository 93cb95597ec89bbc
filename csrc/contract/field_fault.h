// In what way a field of a request is wrong, for protocols that tell it apart.
#pragma once
#include "contract/types.h"

namespace fastqps {

enum class FieldFault : u8 {
  kValue,   // its value, or anything that has no kind of its own
  kModel,   // the request is right, but not for this model: FAILED_PRECONDITION
  kEmpty,   // there is nothing to predict
  kTooMany  // more items than a message may have
};

}  // namespace fastqps
