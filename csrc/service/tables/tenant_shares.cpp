#include "service/tables/tenant_shares.h"

#include <algorithm>
#include <utility>

namespace fastqps::service {
namespace {

// As much of a name as a row holds, whole characters of UTF-8.
std::string_view row_name(std::string_view name) {
  if (name.size() < kTenantNameBytes) return name;
  size_t n = kTenantNameBytes - 1;
  while (n && (u8(name[n]) & 0xc0) == 0x80) n--;
  return name.substr(0, n);
}

}  // namespace

TenantShares::TenantShares(const DoorMemory& memory, const Tenants& tenants)
    : table_(memory.segment.tenant_table(memory.door)),
      tenants_(tenants),
      names_(kTenantRows),
      recent_of_row_(kTenantRows),
      recent_(Tenants::kAll),
      row_(Tenants::kAll, kNoRow) {
  for (u8 row = 0; row < kTenantRows; row++) {
    TenantRow& found = table_.row[row];
    const bool torn = found.name.changes.load(kRelaxed) & 1;  // relaxed: only this door writes it
    if (torn) found.rename("");
    names_[row] = torn ? "" : found.name.get();
  }
}

void TenantShares::accepted(TenantId tenant, u32 n_tokens, u64 now) {
  if (now - std::min(now, aged_ns_) > kHalfLifeNs) age(now);
  bump(table_.all.items);
  if (TenantRow* row = count_tokens(tenant, n_tokens)) bump(row->counts.items);
}

void TenantShares::generated(TenantId tenant, u32 n_tokens) { count_tokens(tenant, n_tokens); }

void TenantShares::refused(TenantId tenant) {
  bump(table_.all.refused);
  if (TenantRow* row = row_of(tenant)) bump(row->counts.refused);
}

TenantRow* TenantShares::row_of(TenantId tenant) {
  const std::string_view name = row_name(tenants_.name(tenant));
  u8& row = row_[tenant];
  if (row == kNoRow || names_[row] != name) row = find(name);
  return row == kNoRow ? nullptr : &table_.row[row];
}

u8 TenantShares::find(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? kNoRow : u8(found - names_.begin());
}

// Returns its row, as row_of does.
TenantRow* TenantShares::count_tokens(TenantId tenant, u64 n_tokens) {
  bump(table_.all.tokens, n_tokens);
  TenantRow* row = row_of(tenant);
  if (row) {
    recent_of_row_[row_[tenant]] += n_tokens;
  } else {
    recent_[tenant] += n_tokens;
    if (!take_row(tenant)) return nullptr;
    row = &table_.row[row_[tenant]];
  }
  bump(row->counts.tokens, n_tokens);
  return row;
}

// A free row is anybody's. Another's changes hands only to a tenant that has clearly more, or two that have about the
// same would take it from each other all the time.
bool TenantShares::take_row(TenantId tenant) {
  if (tenant == Tenants::kOthers) return false;
  const auto exceeds = [&](u64 tokens) { return recent_[tenant] > 2 * std::max(tokens, kTokensMin); };
  if (least_ && !exceeds(least_)) return false;  // the usual case of a tenant without a row
  if (const u8 free = find(""); free != kNoRow) return hand_over(free, tenant), true;
  const auto least = std::min_element(recent_of_row_.begin(), recent_of_row_.end());
  least_ = *least;
  if (!exceeds(least_)) return false;
  return hand_over(u8(least - recent_of_row_.begin()), tenant), true;
}

// What the tenant that leaves has had stays in the sums, and so becomes the others'.
void TenantShares::hand_over(u8 row, TenantId tenant) {
  names_[row] = row_name(tenants_.name(tenant));
  table_.row[row].rename(names_[row]);
  recent_of_row_[row] = std::exchange(recent_[tenant], 0);
  row_[tenant] = row;
}

void TenantShares::age(u64 now) {
  aged_ns_ = now;
  least_ = 0;
  for (u64& tokens : recent_of_row_) tokens /= 2;
  for (u64& tokens : recent_) tokens /= 2;
}

}  // namespace fastqps::service
