// The data that the parts of the service share: the segment, the routes, and a table row for each slot.
#pragma once
#include <utility>

#include "contract/settings.h"
#include "core/slab.h"
#include "service/tables/door.h"
#include "service/tables/items.h"
#include "service/tables/queue_loads.h"
#include "service/tables/refusal.h"
#include "service/tables/tokenizers.h"

namespace fastqps::service {

// The options of a front door's service.
struct PredictOptions {
  u32 door = 0;
  DoorSettings settings{};
  u64 kept_answer_bytes = 256 << 20;  // of answers that wait for others of their call, in the whole process

  TimeLimits times() const { return {settings.default_timeout_ns, settings.max_timeout_ns}; }
};

// The front door's slots. The slab reports its events to SlotEvents.
class SlotEvents;
using Slots = Slab<SlotEvents>;

// Each part of the service takes all tables.
struct Tables {
  // events: receives the slab's events from the first turn on.
  Tables(Segment segment, const WakeFds* fds, const PredictOptions& options, SlotEvents& events)
      : options(options),
        memory(segment, fds, options.door),
        phase(memory, attachment),
        counts(memory, attachment, clock),
        refusals(options.times()),
        slots(segment, fds, options.door, events, options.settings.rerun),
        routes(memory, options.settings),
        tenants(options.settings),
        room(memory, tenants),
        groups(attachment, segment.sizes().slots, options.kept_answer_bytes),
        items(memory, attachment, routes, tenants, room, groups),
        loads(segment, options.door),
        fit(groups, loads, refusals, options.times()),
        tokenizers(memory) {}

  const PredictOptions options;
  Attachment attachment;
  DoorMemory memory;
  PhaseWatch phase;
  TurnClock clock;
  CallCounts counts;
  RefusalWriter refusals;
  Slots slots;
  ModelRoutes routes;
  Tenants tenants;
  WaitingRoom room;
  Groups groups;
  Items items;
  QueueLoads loads;
  CallFit fit;
  Tokenizers tokenizers;
};

// The slab's host: passes its events about slots on to the objects that handle them (predict_service.cpp). It is
// declared here because the slab calls it directly.
struct AnswerPath;
class SlotEvents {
 public:
  // Both may still be under construction, because they are first used in the first turn.
  SlotEvents(Tables& tables, AnswerPath& path) : tables_(tables), path_(path) {}

  // core/slab.h says when each is called. The slot's bytes belong to this process until answer() returns.
  void answer(u32 slot, u64 user, Verdict verdict);
  void progress(u32 slot, u64 user);
  void restarted(u32 slot, u64 user);
  void released(u32 slot, u64) { tables_.items.release(slot); }
  void expect(u32 slot) {
    __builtin_prefetch(&tables_.items[slot]);
    // By now the previous slot's item is in the cache, so its call can be prefetched.
    tables_.attachment->expect(tables_.items[std::exchange(expected_, slot)].call);
  }
  void expect_item(u32 slot) { __builtin_prefetch(&tables_.items[slot], 1); }

 private:
  bool answer_row(u32 slot);
  void refuse_to_keep(u32 slot);

  Tables& tables_;
  AnswerPath& path_;
  u32 expected_ = 0;  // the slot that expect() was called with last
};

}  // namespace fastqps::service
