// The data that the parts of the service share: the segment, the routes, and a table row for each slot. Each part takes
// references to the tables that it needs.
#pragma once
#include "service/intake/queue_loads.h"
#include "service/intake/waiting_room.h"
#include "service/tables/generation.h"
#include "service/tables/items.h"
#include "service/tables/large_answers.h"
#include "service/tables/options.h"
#include "service/tables/refusal.h"
#include "service/tables/slots.h"
#include "service/tables/token_spans.h"
#include "service/tables/turn_clock.h"
#include "service/tokenize/tokenizers.h"

namespace fastqps::service {

struct ServiceTables {
  // events: receives the slab's events from the first turn on.
  ServiceTables(Segment segment, const WakeFds* fds, const PredictOptions& options, SlotEvents& events)
      : memory(segment, fds, options.door),
        refusals(options.times()),
        slots(segment, fds, options.door, events, options.settings.rerun),
        routes(memory, options.settings.auto_truncate),
        tenants(options.settings),
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

}  // namespace fastqps::service
