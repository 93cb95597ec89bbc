// Who the items of a front door belong to. Service between tenants is fair, whatever number of calls and connections
// each of them has.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/request_view.h"
#include "contract/settings.h"
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

}  // namespace fastqps::service
