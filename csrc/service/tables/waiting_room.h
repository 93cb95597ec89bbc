// The items of a front door that wait for a place in a ring, in the order in which they will be served.
//
// Rings are first come, first served. So a door keeps them short, about what the dispatchers take next, and lines up
// everything else here, where it can still be ordered: each class of a route has a line. In a line, tenants share the
// service by their weights, in tokens: start-time fair queueing (Goyal, Vin and Cheng, 1996). A tenant that comes, and
// has had no more than any in line, passes them, but saves nothing up (as sparse flows in FQ-CoDel, RFC 8290). Within a
// tenant first come is first served, but the siblings of a group stand together at the place of the first one, and are
// served as a whole.
#pragma once
#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/layout.h"
#include "service/tables/door.h"
#include "service/tables/tenants.h"

namespace fastqps::service {

class WaitingRoom {
 public:
  static constexpr u32 kNone = ~0u;
  // As many of a group stand together, those that have been served included. Others line up like anybody else, so that
  // no group is served for ever.
  static constexpr u32 kSiblings = 64;
  // How much more than another one a tenant of weight 1 may have had: taking turns at every item would cost too much.
  static constexpr double kGrain = 16;
  // As many newcomers may pass between two turns of others.
  static constexpr u32 kPassing = 16;

  WaitingRoom(const DoorMemory& memory, const Tenants& tenants)
      : memory_(memory),
        tenants_(tenants),
        places_(memory.segment.sizes().slots),
        lines_(u64(memory.segment.sizes().routes()) * kPriorities) {}

  struct Arrival {
    u32 route, kind;  // kind: a Class, one of the priorities
    TenantId tenant;
    u32 cost;  // as cost_of(): at least 1
    u64 since_ns;
  };
  void add(u32 slot, const Arrival& arrival);
  // Takes the item that is served next out of a line that has any.
  struct Next {
    u32 slot;
    u64 since_ns;
  };
  Next take(u32 route, u32 kind);
  void remove(u32 slot);
  // The last item of the tenant with the most of them, about, of a line that has any; how many that tenant has, for its
  // weight.
  u32 youngest(u32 route, u32 kind) const;
  double most(u32 route, u32 kind) const;

  bool has(u32 slot) const { return places_[slot].line != kNoLine; }
  u32 size() const { return items_; }
  u32 size(u32 route, u32 kind) const { return lines_[line_of(route, kind)].items; }
  // Tenants of a line that are served before one that has nothing in it, about; and the weights of all.
  u64 before(u32 route, u32 kind, TenantId tenant) const;
  u64 weights(u32 route, u32 kind) const { return lines_[line_of(route, kind)].weights; }

  // The item is one of a group's siblings until leave(), whether it waits or not.
  void join(u32 slot, std::string_view siblings, TenantId tenant, u32 route, u32 kind);
  // It went into a ring at once.
  void pass(u32 slot) {
    if (places_[slot].siblings != kNone) siblings_[places_[slot].siblings].served = true;
  }
  void leave(u32 slot);

 private:
  static constexpr u16 kNoLine = 0xffff;

  struct Place {
    u32 next = kNone, before = kNone;  // of the same tenant
    u32 siblings = kNone, cost = 0;
    u64 since_ns = 0;
    TenantId tenant = 0;
    u16 line = kNoLine;
  };
  // The items of one tenant in one line.
  struct Queue {
    u32 first = kNone, last = kNone, items = 0;
    u32 returned = kNone;   // the last of those whose siblings have been served, who all stand in front
    bool has_turn = false;  // possibly an old one, since when its items have left
    u32 owner = 0;          // Tenants::owner, of whom the rest is
    double served = 0;      // what it has had, by its weight
  };
  struct Turn {
    double start;
    u64 number;  // first come, first served among equals; 0: a newcomer's
    u32 tenant, weight;
    bool operator<(const Turn& other) const {
      return start != other.start ? start > other.start : number > other.number;
    }
  };
  struct Line {
    std::vector<Turn> turns;     // a heap: one of each tenant that has items, but for this one:
    std::deque<Turn> newcomers;  // the same of those that came and have had no more than any in line
    Turn turn{};                 // the tenant that is being served; weight 0: none
    std::vector<Queue> queues;   // by tenant; made with the first item
    u32 items = 0;
    u32 largest = 0;       // a tenant with many items
    u64 weights = 0;       // of the tenants that have turns
    u32 siblings = kNone;  // of the item that was taken last
    double service = 0;    // the most that a tenant had had before an item of it was served
    u32 passed = 0;        // turns of newcomers since the last one of others
  };
  struct Siblings {
    u32 last = kNone;  // the sibling that came last of those that wait
    u32 waiting = 0, members = 0;
    u32 stood = 0;        // how many have stood together
    bool served = false;  // one of them has been taken
    u64 key = 0, where = 0;
  };

  static size_t line_of(u32 route, u32 kind) { return size_t(route) * kPriorities + kind; }
  void give_turn(Line& line, u32 tenant);
  void join_line(Line& line, u32 tenant);
  static double least_served(const Line& line);
  void leave_turn(Line& line);
  void change_owner(Line& line, u32 tenant, u32 owner);
  u32 longest(const Line& line) const;
  double part(const Line& line, u32 tenant) const;
  bool serves_siblings(const Line& line) const;
  u32 next_tenant(Line& line);
  u32 stand(Queue& queue, u32 slot);
  void unlink(u32 slot);
  void publish(const Line& line) const;

  const DoorMemory& memory_;
  const Tenants& tenants_;
  std::vector<Place> places_;  // by slot
  std::vector<Line> lines_;
  std::vector<Siblings> siblings_;
  std::vector<u32> free_siblings_;
  std::unordered_map<u64, u32> by_key_;
  u64 turns_ = 0;
  u32 items_ = 0;
};

}  // namespace fastqps::service
