// What the writer of an answer must know of each item. It travels as the item's request id, which this API has not.
#pragma once
#include "core/types.h"

namespace fastqps::front {

struct ItemNote {
  u32 characters = 0;     // of its texts
  bool activate = false;  // the scores are logits, and the client wants probabilities

  u64 as_id() const { return u64(activate) << 32 | characters; }
  static ItemNote of(u64 id) { return {u32(id), (id >> 32) != 0}; }
};

}  // namespace fastqps::front
