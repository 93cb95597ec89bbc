// The counts of a front door's tenants in shared memory: of those that metrics show by name, and of all together.
#pragma once
#include <string>
#include <string_view>

#include "core/layout/shared_text.h"

namespace fastqps {

inline constexpr u32 kTenantRows = 32;
inline constexpr u32 kTenantNameBytes = 64;

struct TenantCounters {
  std::atomic<u64> items, tokens, refused;  // [D] of a row: since it has its name
};

struct alignas(64) TenantRow {
  SharedText<kTenantNameBytes> name;  // [D] empty: the row is free. It changes when the row changes hands
  TenantCounters counts;

  // Only by its front door. The counts begin anew.
  void rename(std::string_view to) {
    name.write(to, [this] {
      for (auto* count : {&counts.items, &counts.tokens, &counts.refused}) count->store(0, kRelease);
    });
  }

  struct Reading {
    u64 changes = 0;
    std::string name;
    u64 items = 0, tokens = 0, refused = 0;
  };
  // Returns false if the row is free or changes hands just now.
  bool read(Reading& found) const {
    const bool whole = name.read(found.name, [&](u64 changes) {
      found.changes = changes;
      found.items = counts.items.load(kAcquire), found.tokens = counts.tokens.load(kAcquire);
      found.refused = counts.refused.load(kAcquire);
    });
    return whole && !found.name.empty();
  }
};

struct alignas(64) TenantTable {
  TenantCounters all;
  TenantRow row[kTenantRows];
};

}  // namespace fastqps
