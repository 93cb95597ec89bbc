// The counts of a front door's tenants in shared memory: of those that metrics show by name, and of all together.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "core/histogram.h"
#include "core/types.h"

namespace fastqps {

inline constexpr u32 kTenantRows = 32;
inline constexpr u32 kTenantNameBytes = 64;

struct TenantCounters {
  std::atomic<u64> items, tokens, refused;  // [D] of a row: since it has its name
};

struct alignas(64) TenantRow {
  std::atomic<u64> changes;                      // [D] odd while the row changes hands
  std::atomic<u64> words[kTenantNameBytes / 8];  // [D] the name, and zeros behind it; all zero: the row is free
  TenantCounters counts;

  // Only by its front door. The counts begin anew.
  void rename(std::string_view name) {
    const u64 odd = changes.load(kRelaxed) | 1;  // relaxed: only this process writes it
    changes.store(odd, kRelaxed);                // relaxed: the releases below order it before what they store
    u64 bytes[kTenantNameBytes / 8] = {};
    name.copy(reinterpret_cast<char*>(bytes), std::min<size_t>(name.size(), kTenantNameBytes - 1));
    // Release pairs with the acquires of read(): who sees one of these also sees that the row changes hands.
    for (u32 i = 0; i < kTenantNameBytes / 8; i++) words[i].store(bytes[i], kRelease);
    for (auto* count : {&counts.items, &counts.tokens, &counts.refused}) count->store(0, kRelease);
    changes.store(odd + 1, kRelease);
  }
  std::string name() const {
    u64 bytes[kTenantNameBytes / 8];
    for (u32 i = 0; i < kTenantNameBytes / 8; i++) bytes[i] = words[i].load(kAcquire);
    const std::string_view all(reinterpret_cast<const char*>(bytes), sizeof bytes);
    return std::string(all.substr(0, std::min(all.size(), all.find('\0'))));
  }

  struct Reading {
    u64 changes = 0;
    std::string name;
    u64 items = 0, tokens = 0, refused = 0;
  };
  // Returns false if the row is free or changes hands just now.
  bool read(Reading& found) const {
    found.changes = changes.load(kAcquire);
    found.name = name();
    found.items = counts.items.load(kAcquire), found.tokens = counts.tokens.load(kAcquire);
    found.refused = counts.refused.load(kAcquire);
    const u64 now = changes.load(kRelaxed);  // relaxed: behind the acquires above
    return !(found.changes & 1) && now == found.changes && !found.name.empty();
  }
};

struct alignas(64) TenantTable {
  TenantCounters all;
  TenantRow row[kTenantRows];
};

}  // namespace fastqps
