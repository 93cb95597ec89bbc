// The data that the parts of the service share: the segment, the routes, and a table row for each slot. Each part takes
// references to the tables that it needs.
#pragma once
#include "predict/intake/queue_loads.h"
#include "predict/intake/waiting_room.h"
#include "predict/tables/generation.h"
#include "predict/tables/items.h"
#include "predict/tables/large_answers.h"
#include "predict/tables/options.h"
#include "predict/tables/refusal.h"
#include "predict/tables/slots.h"
#include "predict/tables/token_spans.h"
#include "predict/tables/turn_clock.h"
#include "predict/tokenize/tokenizers.h"

namespace fastqps::front {

struct ServiceTables {
  // events: receives the slab's events from the first turn on.
  ServiceTables(Segment segment, const WakeFds* fds, const PredictOptions& options, SlotEvents& events)
      : memory(segment, fds, options.door),
        refusals(options.times),
        slots(segment, fds, options.door, events, options.rerun),
        routes(memory, options.auto_truncate),
        tenants(options.tenants),
        items(memory, routes, tenants),
        room(memory, tenants),
        generations(segment.sizes().slots),
        spans(segment.sizes().slots),
        large_answers(memory),
        loads(segment, options.door),
        tokenizers(memory) {}

  Attachment attachment;
  DoorMemory memory;
  TurnClock clock;
  RefusalWriter refusals;
  Slots slots;
  ModelRoutes routes;
  Tenants tenants;
  Items items;
  WaitingRoom room;
  Generations generations;
  TokenSpans spans;
  LargeAnswers large_answers;
  QueueLoads loads;
  Tokenizers tokenizers;
};

}  // namespace fastqps::front
