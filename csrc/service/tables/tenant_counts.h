// How many items each tenant of a front door has, by class: those that wait for a dispatcher, and all that hold a slot.
#pragma once
#include <vector>

#include "core/layout.h"
#include "service/tables/tenants.h"

namespace fastqps::service {

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

}  // namespace fastqps::service
