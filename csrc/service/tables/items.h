// The table of items. An *item* is one PredictRequest that holds a slot, and its row has the slot's number.
#pragma once
#include <new>
#include <utility>
#include <vector>

#include "contract/response_view.h"
#include "core/layout.h"
#include "service/tables/deadlines.h"
#include "service/tables/groups.h"
#include "service/tables/model_routes.h"
#include "service/tables/tenant_counts.h"
#include "service/tables/tenant_shares.h"
#include "service/tables/time_limits.h"
#include "transport/rpc/service.h"

namespace fastqps::service {

// One cache line, since each request writes and reads all of it.
struct alignas(64) Item {
  transport::CallId call;
  transport::ConnectionId connection;
  u64 request_id = 0, received_ns = 0;
  u32 group = Groups::kNone, index = 0;  // of a batch or stream call, and the place in its batch
  u32 parse_us = 0, tokenize_us = 0;
  u16 route = 0;
  Rpc method = kPredict;
  u8 priority : 4 = 0;
  u8 role : 4 = 0;       // the place in RouteSetup::roles
  bool stamped = false;  // its times are in the table
  bool sampled = false, traced = false;
  bool tokenizing = false;  // not put yet, because a worker has its text
  bool truncate : 1 = false, truncated : 1 = false;
  bool pair : 1 = false;
  bool grouped : 1 = false;  // is one of siblings
  bool bare : 1 = false;     // no special tokens are put around its text
  TimeBound bound : 2 = TimeBound::kOwn;
  bool answered = false;
  bool held = false;              // counts in its route
  bool waits = false;             // for its tokens or for a dispatcher; counts in its tenant's share
  bool holds_connection = false;  // its call is gone, but it still counts against the connection
};
static_assert(sizeof(Item) == 64);

// By fastqps.v1.Priority.
constexpr Class class_of(u8 priority) {
  constexpr Class kClassOf[] = {kNormal, kLow, kNormal, kHigh};
  return kClassOf[priority & 3];
}

struct ItemTimes {
  u64 parse_begun_ns, parse_ended_ns;
};

// Where an item's message came from.
struct Origin {
  transport::CallId call;
  const transport::CallInfo* info;
  Rpc method;
  u32 group = Groups::kNone, index = 0;
  u32 batch_slots = 0;           // slots that its batch holds already
  bool streams = false;          // a generation is answered piece by piece
  Output wants = Output::kNone;  // the only kind of answer that the protocol can carry
};

// Of an item that an edge sent and traces: its trace, the edge's span, and the one by which servers behind this one
// know it: this server's own, or the edge's if none is recorded here. span_id all 0: it is not traced.
struct StepSpan {
  u8 trace_id[16] = {}, parent_id[8] = {}, span_id[8] = {};
  std::string state = {};  // its tracestate
};

class Items {
 public:
  Items(const DoorMemory& memory, ModelRoutes& routes, Tenants& tenants)
      : deadlines(memory.segment.sizes().slots),
        counts(memory.segment.sizes().routes()),
        shares(memory, tenants),
        routes_(routes),
        tenants_(tenants),
        items_(memory.segment.sizes().slots),
        times_(memory.segment.sizes().slots),
        spans_(memory.segment.sizes().slots),
        tenant_of_(memory.segment.sizes().slots) {}

  Item& operator[](u32 slot) { return items_[slot]; }
  ItemTimes& times(u32 slot) { return times_[slot]; }
  // Of an item that an edge sent.
  StepSpan& span(u32 slot) { return spans_[slot]; }
  u32 size() const { return u32(items_.size()); }

  TenantId tenant(u32 slot) const { return tenant_of_[slot]; }
  u32 weight(TenantId tenant) const { return tenants_.weight(tenant); }

  // The item counts against its tenant and its route, until release(), and waits until end_wait().
  void hold(u32 slot, TenantId tenant) {
    Item& item = items_[slot];
    item.held = item.waits = true;
    tenant_of_[slot] = tenant;
    routes_.hold(item.route);
    tenants_.hold(tenant);
    counts.add(tenant, item.route, class_of(item.priority));
  }
  void end_wait(u32 slot) {
    Item& item = items_[slot];
    if (std::exchange(item.waits, false)) counts.taken(tenant_of_[slot], item.route, class_of(item.priority));
  }
  void wait_again(u32 slot) {
    Item& item = items_[slot];
    if (!std::exchange(item.waits, true)) counts.wait(tenant_of_[slot], item.route, class_of(item.priority));
  }
  void release(u32 slot) {
    Item& item = items_[slot];
    if (!std::exchange(item.held, false)) return;
    routes_.release(item.route);
    end_wait(slot);
    counts.remove(tenant_of_[slot], class_of(item.priority));
    tenants_.release(tenant_of_[slot]);
  }
  // Marks the item as answered. The caller must answer it, once.
  void answer(u32 slot) {
    items_[slot].answered = true;
    deadlines.clear(slot);
  }

  Deadlines deadlines;
  TenantCounts counts;
  TenantShares shares;

 private:
  ModelRoutes& routes_;
  Tenants& tenants_;
  std::vector<Item> items_;
  std::vector<ItemTimes> times_;
  std::vector<StepSpan> spans_;
  std::vector<TenantId> tenant_of_;
};

}  // namespace fastqps::service
