// The tenants of a front door with the most tokens of late, and all of its tenants together, as metrics show them. The
// counts are in shared memory; the supervisor adds up those of all front doors by name.
#pragma once
#include <string>
#include <vector>

#include "service/tables/door_memory.h"
#include "service/tables/tenants.h"

namespace fastqps::service {

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
