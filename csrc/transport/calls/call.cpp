#include "transport/calls/call.h"

#include <new>

namespace fastqps::transport {

Call* CallPool::acquire() {
  if (free_.empty()) {
    if (made_ == capacity_) return nullptr;
    if (made_ % kChunk == 0) {
      chunks_.push_back(std::make_unique<Call[]>(kChunk));
      free_.reserve(made_ + kChunk);
    }
    at(made_).generation = 0;
    free_.push_back(made_++);
  }
  const u32 index = free_.back();
  free_.pop_back();
  Call& call = at(index);
  const u32 generation = call.generation + 1;
  Call* fresh = new (&call) Call{};
  fresh->index = index;
  fresh->generation = generation;
  return fresh;
}

void CallPool::release(Call& call) {
  call.generation++;  // odd: in use, even: free
  free_.push_back(call.index);
}

}  // namespace fastqps::transport
