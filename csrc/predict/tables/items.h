// The table of items. An *item* is one PredictRequest that holds a slot, and its row has the slot's number.
#pragma once
#include <new>
#include <utility>
#include <vector>

#include "core/layout.h"
#include "grpc/service.h"
#include "grpc/shares.h"
#include "predict/tables/deadlines.h"
#include "predict/tables/groups.h"
#include "predict/tables/model_routes.h"
#include "wire/response_view.h"

namespace fastqps::front {

// One cache line, since each request writes and reads all of it.
struct alignas(64) Item {
  CallId call;
  ConnectionId connection;
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
  bool truncate = false, truncated = false;
  bool pair = false;
  bool cut = false;  // its text was cut before it was tokenized; the rest must fill the model's limit
  bool answered = false;
  bool held = false;              // counts in its route
  bool waits = false;             // for its tokens or for a dispatcher; counts in its connection's share
  bool holds_connection = false;  // its call is gone, but it still counts against the connection
};
static_assert(sizeof(Item) == 64);

struct ItemTimes {
  u64 parse_begun_ns, parse_ended_ns;
};

// Where an item's message came from.
struct Origin {
  CallId call;
  const CallInfo* info;
  Rpc method;
  u32 group = Groups::kNone, index = 0;
  u32 batch_slots = 0;           // slots that its batch holds already
  bool streams = false;          // a generation is answered piece by piece
  Output wants = Output::kNone;  // the only kind of answer that the protocol can carry
};

class Items {
 public:
  Items(const DoorMemory& memory, ModelRoutes& routes)
      : deadlines(memory.segment.sizes().slots),
        shares(memory.segment.sizes().routes()),
        routes_(routes),
        items_(memory.segment.sizes().slots),
        times_(memory.segment.sizes().slots) {}

  Item& operator[](u32 slot) { return items_[slot]; }
  ItemTimes& times(u32 slot) { return times_[slot]; }
  u32 size() const { return u32(items_.size()); }

  // The item counts against its connection and its route, until release(), and waits until end_wait().
  void hold(Item& item) {
    item.held = item.waits = true;
    routes_.hold(item.route);
    shares.add(item.connection, item.route);
  }
  void end_wait(Item& item) {
    if (std::exchange(item.waits, false)) shares.taken(item.connection, item.route);
  }
  void wait_again(Item& item) {
    if (!std::exchange(item.waits, true)) shares.wait(item.connection, item.route);
  }
  void release(Item& item) {
    if (!std::exchange(item.held, false)) return;
    routes_.release(item.route);
    end_wait(item);
    shares.remove(item.connection);
  }
  // Marks the item as answered. The caller must answer it, once.
  void answer(u32 slot) {
    items_[slot].answered = true;
    deadlines.clear(slot);
  }

  Deadlines deadlines;
  Shares shares;

 private:
  ModelRoutes& routes_;
  std::vector<Item> items_;
  std::vector<ItemTimes> times_;
};

}  // namespace fastqps::front
