// Who the items of a front door belong to. Service between tenants is fair, whatever number of calls and connections
// each of them has.
#pragma once
#include <vector>

#include "grpc/service.h"
#include "wire/request_view.h"

namespace fastqps::front {

// A place in the table of tenants.
using TenantId = u16;

class Tenants {
 public:
  static constexpr u32 kTracked = 4096;      // tenants with items at one time
  static constexpr TenantId kOthers = 0;     // all further ones together
  static constexpr u32 kAll = kTracked + 1;  // rows

  // The tenant of an item. It stays this item's tenant while the caller holds it.
  TenantId of(const RequestView&, const CallInfo& info) { return TenantId(1 + info.connection.index % kTracked); }
  // An item of the tenant, from its acceptance to its end. A tenant without items loses its row when another needs it.
  void hold(TenantId) {}
  void release(TenantId) {}
  // Its part of the service beside others of the same class.
  u32 weight(TenantId) const { return 1; }
};

}  // namespace fastqps::front
