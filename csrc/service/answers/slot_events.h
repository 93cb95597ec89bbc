// The slab's host: passes its events about slots on to the objects that handle them.
#pragma once
#include <utility>

#include "service/answers/answer_path.h"
#include "service/tables/service_tables.h"

namespace fastqps::service {

class SlotEvents {
 public:
  // Both may still be under construction, because they are first used in the first turn.
  SlotEvents(ServiceTables& tables, AnswerPath& path) : tables_(tables), path_(path) {}

  // core/slab.h says when each is called. The slot's bytes belong to this process until answer() returns.
  void answer(u32 slot, u64 user, Verdict verdict);
  void progress(u32 slot, u64) { path_.generating.read_progress(slot); }
  void restarted(u32 slot, u64 user);
  void released(u32 slot, u64 user);
  void expect(u32 slot) {
    __builtin_prefetch(&tables_.items[slot]);
    // By now the previous slot's item is in the cache, so its call can be prefetched.
    tables_.attachment->expect(tables_.items[std::exchange(expected_, slot)].call);
  }
  void expect_item(u32 slot) { __builtin_prefetch(&tables_.items[slot], 1); }

 private:
  bool answer_row(u32 slot);
  void refuse_to_keep(u32 slot);

  ServiceTables& tables_;
  AnswerPath& path_;
  u32 expected_ = 0;  // the slot that expect() was called with last
};

}  // namespace fastqps::service
