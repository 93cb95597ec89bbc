// What the slab announces about slots, passed on to whom it concerns.
#pragma once
#include <utility>

#include "predict/answers/answer_path.h"
#include "predict/tables/service_tables.h"

namespace fastqps::front {

class SlotEvents {
 public:
  // Both may still be under construction: they are used from the first turn on.
  SlotEvents(ServiceTables& tables, AnswerPath& path) : tables_(tables), path_(path) {}

  // The slab's host: core/slab.h says when each is called. The slot's bytes are ours until answer() returns.
  void answer(u32 slot, u64 user, Verdict verdict);
  void progress(u32 slot, u64) { path_.generating.read_progress(slot); }
  void restarted(u32 slot, u64 user);
  void released(u32 slot, u64 user);
  void expect(u32 slot) {
    __builtin_prefetch(&tables_.items[slot]);
    // The item of the slot before is in the cache by now, and leads to its call.
    tables_.attachment->expect(tables_.items[std::exchange(expected_, slot)].call);
  }

 private:
  bool answer_row(u32 slot);

  ServiceTables& tables_;
  AnswerPath& path_;
  u32 expected_ = 0;  // the slot that expect() was called with last
};

}  // namespace fastqps::front
