// Decides whether a route accepts one more request, before the request is tokenized, so that a rejection costs
// microseconds.
#pragma once
#include "contract/request_view.h"
#include "service/intake/call_fit.h"
#include "service/intake/waiting_room.h"
#include "service/tables/items.h"
#include "service/tables/refusal.h"
#include "service/tables/slots.h"

namespace fastqps::service {

class Admission {
 public:
  Admission(const DoorMemory& memory, Slots& slots, Items& items, const WaitingRoom& room, const Groups& groups,
            QueueLoads& loads, const CallFit& fit, RefusalWriter& refusals, const TimeLimits& times)
      : memory_(memory),
        slots_(slots),
        items_(items),
        room_(room),
        groups_(groups),
        loads_(loads),
        fit_(fit),
        refusals_(refusals),
        times_(times) {}

  // The client's timeout binds the whole call, up to the server's maximum. Without one an item has the server's default
  // from the time when its turn comes: items of its own call before it do not count.
  ItemTime time_of(const RequestView& view, const Origin& from) const;
  // A request is refused for what is served before it, never for what is served behind it.
  Refusal check(const RequestView& view, u32 route, TenantId tenant, const Origin& from, u64 now, const ItemTime& time);
  // The rejection if all slots are in use.
  Refusal no_slot(u32 route, u32 kind, u32 group);

 private:
  // A request that would be late, by what is served before it.
  struct Late {
    u32 route, kind;
    double share;
    u64 ahead, predicted_ns;
  };
  Refusal check_late(const Late& late, const Origin& from, u64 now, const ItemTime& time);
  Refusal check_share(u32 route, u32 kind, TenantId tenant, const Origin& from, u64 predicted_ns);
  bool has_few(u32 route, u32 kind, TenantId tenant, const Origin& from) const;
  u64 ahead(u32 route, u32 kind, TenantId tenant) const;

  const DoorMemory& memory_;
  Slots& slots_;
  Items& items_;
  const WaitingRoom& room_;
  const Groups& groups_;
  QueueLoads& loads_;
  const CallFit& fit_;
  RefusalWriter& refusals_;
  const TimeLimits times_;
};

}  // namespace fastqps::service
