// Who the items of a front door belong to. Service between tenants is fair, whatever number of calls and connections
// each of them has.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/request_view.h"
#include "contract/settings.h"
#include "core/layout.h"
#include "service/tables/door.h"
#include "transport/rpc/service.h"

namespace fastqps::service {

// A place in the table of tenants.
using TenantId = u16;

// The group that an item names, or its call; empty: none. Groups of two tenants are never the same.
inline std::string_view group_of(const RequestView& view, const transport::CallInfo& info) {
  return view.group.empty() && info.caller.names ? info.caller.names->group.value() : view.group;
}

class Tenants {
 public:
  static constexpr u32 kTracked = 4096;                         // tenants with items at one time
  static constexpr TenantId kOthers = 0;                        // all further ones together
  static constexpr const char* kConnectionName = "connection";  // of those that are a connection
  static constexpr u32 kAll = kTracked + 1;                     // rows

  // Without a tenant_header clients name no tenants: field and metadata are ignored.
  explicit Tenants(const DoorSettings& settings = {});

  // The tenant of an item: what it names, else its call's headers, else its token, else the client's certificate, else
  // its connection, which is open. It stays this item's tenant while the caller holds it; until then the next of() may
  // take its row.
  TenantId of(const RequestView& view, const transport::CallInfo& info);
  // An item of the tenant, from its acceptance to its end. A tenant without items loses its row when another needs it,
  // the least recently used first.
  void hold(TenantId tenant) {
    Row& row = rows_[tenant];
    if (!row.items++ && tenant != kOthers) unlink(row);
  }
  void release(TenantId tenant) {
    Row& row = rows_[tenant];
    if (!--row.items && tenant != kOthers) link_last(tenant);
  }
  // Its part of the service beside others of the same class.
  u32 weight(TenantId tenant) const { return rows_[tenant].weight; }
  // Another number for each tenant that the row has had.
  u32 owner(TenantId tenant) const { return rows_[tenant].owner; }
  // For messages and metrics: a name, "token:1a2b3c4d", "certificate:CN=client", "connection" or "others".
  std::string_view name(TenantId tenant) const { return rows_[tenant].name; }

 private:
  enum class Kind : u8 { kFree, kOthers, kNamed, kToken, kCertificate, kConnection };
  static constexpr std::string_view prefix_of(Kind kind) {
    return kind == Kind::kToken ? "token:" : kind == Kind::kCertificate ? "certificate:" : "";
  }
  struct Row {
    std::string name;
    u64 hash = 0;
    transport::ConnectionId connection;  // of a kConnection
    u32 items = 0, weight = 1, owner = 0;
    TenantId same_bucket = kOthers;               // the next one; kOthers: none
    TenantId previous = kOthers, next = kOthers;  // among those without items; kOthers: the ends
    Kind kind = Kind::kFree;

    bool is(Kind other, std::string_view of) const {
      return kind == other && std::string_view(name).substr(prefix_of(kind).size()) == of;
    }
  };
  // What was found last for a connection.
  struct Known {
    u32 generation = 0;
    TenantId own = kOthers;   // for items of which nothing else is known
    TenantId last = kOthers;  // of another kind
  };
  static constexpr u32 kBuckets = 8192;

  Known& known(transport::ConnectionId connection);
  TenantId of_connection(transport::ConnectionId connection);
  TenantId of_name(Kind kind, std::string_view name, transport::ConnectionId connection);
  // The row that has been without items for longest; kOthers: all have some.
  TenantId take_row();
  u64 hash_of(Kind kind, std::string_view name) const;
  u32 weight_of(std::string_view name) const;
  void unlink(Row& row);
  void link_last(TenantId tenant);

  const bool named_;
  const u64 seed_;  // so that no client knows which names meet in a bucket
  std::vector<std::pair<std::string, u32>> weights_;
  std::vector<Row> rows_;  // rows_[kOthers] also holds the ends of the list of those without items
  std::vector<TenantId> buckets_;
  std::vector<Known> known_;  // by the connection's index
};

// How many items each tenant of a front door has, by class: those that wait for a dispatcher, and all that hold a slot.
class TenantCounts {
 public:
  explicit TenantCounts(u32 routes) : row_(u64(routes + 1) * kPriorities) {}

  // An item has a slot, and waits.
  void add(TenantId tenant, u32 route, u32 kind) {
    const size_t row = tenant * row_;
    if (row >= items_.size()) items_.resize(row + row_);
    items_[row + kind]++;
    wait(tenant, route, kind);
  }
  void wait(TenantId tenant, u32 route, u32 kind) { items_[waiting_at(tenant, route, kind)]++; }
  void taken(TenantId tenant, u32 route, u32 kind) { items_[waiting_at(tenant, route, kind)]--; }
  void remove(TenantId tenant, u32 kind) { items_[tenant * row_ + kind]--; }

  // Of this class and the higher ones.
  u32 waiting(TenantId tenant, u32 route, u32 kind) const { return sum(waiting_at(tenant, route, 0), kind); }
  u32 slots(TenantId tenant, u32 kind) const { return sum(tenant * row_, kind); }
  u32 slots(TenantId tenant) const { return slots(tenant, kPriorities - 1); }
  // Of this class alone.
  u32 waiting_of(TenantId tenant, u32 route, u32 kind) const {
    const size_t at = waiting_at(tenant, route, kind);
    return at < items_.size() ? items_[at] : 0;
  }

 private:
  size_t waiting_at(TenantId tenant, u32 route, u32 kind) const {
    return tenant * row_ + u64(route + 1) * kPriorities + kind;
  }
  u32 sum(size_t first, u32 kind) const {
    if (first >= items_.size()) return 0;
    u32 n = 0;
    for (u32 c = 0; c <= kind; c++) n += items_[first + c];
    return n;
  }

  const size_t row_;
  std::vector<u32> items_;  // by tenant: the slots of each class, then of each route the waiting ones of each class
};

// The tenants of a front door with the most tokens of late, and all of its tenants together, as metrics show them. The
// counts are in shared memory; the supervisor adds up those of all front doors by name.
class TenantShares {
 public:
  // Takes over the rows of the front door's last incarnation.
  TenantShares(const DoorMemory& memory, const Tenants& tenants);

  // An item of the tenant waits for a dispatcher.
  void accepted(TenantId tenant, u32 n_tokens, u64 now);
  // Tokens were generated for one of its items.
  void generated(TenantId tenant, u32 n_tokens);
  // One of its items was refused for load.
  void refused(TenantId tenant);

 private:
  static constexpr u8 kNoRow = 0xff;
  static constexpr u64 kHalfLifeNs = 60'000'000'000;  // what a tenant has had counts half as much after this time
  static constexpr u64 kTokensMin = 512;              // of late, of a tenant that takes another's row

  // Its row; nullptr: it is one of the others.
  TenantRow* row_of(TenantId tenant);
  u8 find(std::string_view name) const;
  TenantRow* count_tokens(TenantId tenant, u64 n_tokens);
  bool take_row(TenantId tenant);
  void hand_over(u8 row, TenantId tenant);
  void age(u64 now);

  TenantTable& table_;
  const Tenants& tenants_;
  std::vector<std::string> names_;  // of the rows, as the table has them; empty: the row is free
  std::vector<u64> recent_of_row_;  // tokens, of which older ones count less
  std::vector<u64> recent_;         // the same by tenant, of those without a row
  std::vector<u8> row_;             // by tenant: where it was found last
  u64 least_ = 0;                   // no row has had fewer tokens of late; 0: not known
  u64 aged_ns_ = 0;
};

}  // namespace fastqps::service
