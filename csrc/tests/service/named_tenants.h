// Items of named tenants and of connections, for tests of the table of tenants and of what counts by its rows.
#pragma once
#include <string_view>

#include "service/tables/tenants.h"

namespace fastqps::test {

inline CallInfo call_of(u32 connection, u32 generation = 1) {
  CallInfo info{};
  info.connection = {connection, generation};
  return info;
}

inline RequestView of_tenant(std::string_view name) {
  RequestView view;
  view.tenant = name;
  return view;
}

// The tenant of one more item.
inline TenantId hold(Tenants& tenants, const RequestView& view, const CallInfo& info = call_of(1)) {
  const TenantId tenant = tenants.of(view, info);
  tenants.hold(tenant);
  return tenant;
}

}  // namespace fastqps::test
