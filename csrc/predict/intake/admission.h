// Decides whether a route accepts one more request, before the request is tokenized, so that a rejection costs
// microseconds.
#pragma once
#include "predict/intake/queue_loads.h"
#include "predict/intake/waiting_room.h"
#include "predict/tables/items.h"
#include "predict/tables/refusal.h"
#include "predict/tables/slots.h"
#include "wire/request_view.h"

namespace fastqps::front {

class Admission {
 public:
  // default_timeout_ns: for requests without a deadline; 0: none.
  Admission(const DoorMemory& memory, Slots& slots, Items& items, const WaitingRoom& room, QueueLoads& loads,
            RefusalWriter& refusals, u64 default_timeout_ns)
      : memory_(memory),
        slots_(slots),
        items_(items),
        room_(room),
        loads_(loads),
        refusals_(refusals),
        default_timeout_ns_(default_timeout_ns) {}

  // Returns the earliest of the call's deadline, the item's timeout and the server's default; 0 if none is set.
  u64 deadline_of(const RequestView& view, const CallInfo& info) const;
  // A request is refused for what is served before it, never for what is served behind it.
  Refusal check(const RequestView& view, u32 route, TenantId tenant, const Origin& from, u64 now, u64 deadline);
  // The rejection if all slots are in use.
  Refusal no_slot(u32 route, u32 kind);

 private:
  Refusal check_share(u32 route, u32 kind, TenantId tenant, const Origin& from, u64 predicted_ns);
  bool has_few(u32 route, u32 kind, TenantId tenant, const Origin& from) const;
  u64 ahead(u32 route, u32 kind, TenantId tenant) const;

  const DoorMemory& memory_;
  Slots& slots_;
  Items& items_;
  const WaitingRoom& room_;
  QueueLoads& loads_;
  RefusalWriter& refusals_;
  const u64 default_timeout_ns_;
};

}  // namespace fastqps::front
