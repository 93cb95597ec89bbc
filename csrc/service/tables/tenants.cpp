#include "service/tables/tenants.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/rpc/seeds.h"

namespace fastqps::service {

namespace {

// As the fingerprint of an input (door.cpp).
u64 mix(u64 hash, u64 word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdu;
  return hash ^ hash >> 29;
}

struct Hex {
  explicit Hex(u32 number) {
    for (int i = 7; i >= 0; i--, number >>= 4) digits[i] = "0123456789abcdef"[number & 15];
  }
  std::string_view text() const { return {digits, sizeof digits}; }
  char digits[8];
};

}  // namespace

Tenants::Tenants(const DoorSettings& settings)
    : named_(!settings.tenant_header.empty()),
      seed_(transport::Seeds().next()),
      weights_(settings.tenant_weights),
      rows_(kAll),
      buckets_(kBuckets, kOthers) {
  rows_[kOthers].kind = Kind::kOthers;
  rows_[kOthers].name = "others";
  for (u32 tenant = 1; tenant < kAll; tenant++) link_last(TenantId(tenant));
}

TenantId Tenants::of(const RequestView& view, const transport::CallInfo& info) {
  const transport::Caller& caller = info.caller;
  if (named_) {
    const std::string_view name = view.tenant.empty() && caller.names ? caller.names->tenant.value() : view.tenant;
    if (!name.empty()) return of_name(Kind::kNamed, name, info.connection);
  }
  if (caller.token) return of_name(Kind::kToken, Hex(caller.token).text(), info.connection);
  if (!caller.certificate.empty()) return of_name(Kind::kCertificate, caller.certificate, info.connection);
  return of_connection(info.connection);
}

Tenants::Known& Tenants::known(transport::ConnectionId connection) {
  if (known_.size() <= connection.index) known_.resize(connection.index + 1);
  Known& known = known_[connection.index];
  if (known.generation != connection.generation) known = {.generation = connection.generation};
  return known;
}

TenantId Tenants::of_connection(transport::ConnectionId connection) {
  TenantId& own = known(connection).own;
  const Row& found = rows_[own];
  if (found.kind == Kind::kConnection && found.connection == connection) return own;
  own = take_row();
  if (own == kOthers) return own;
  Row& row = rows_[own];
  row.kind = Kind::kConnection;
  row.connection = connection;
  row.name = kConnectionName;
  row.weight = 1;
  return own;
}

TenantId Tenants::of_name(Kind kind, std::string_view name, transport::ConnectionId connection) {
  TenantId& last = known(connection).last;
  if (rows_[last].is(kind, name)) return last;
  const u64 hash = hash_of(kind, name);
  TenantId& bucket = buckets_[hash % kBuckets];
  for (last = bucket; last != kOthers; last = rows_[last].same_bucket)
    if (rows_[last].hash == hash && rows_[last].is(kind, name)) return last;
  last = take_row();
  if (last == kOthers) return last;
  Row& row = rows_[last];
  row.kind = kind;
  row.name = prefix_of(kind);
  row.name += name;
  row.hash = hash;
  row.weight = weight_of(row.name);
  row.same_bucket = std::exchange(bucket, last);
  return last;
}

// The new one stays where it is until it has items: one whose items are all refused pushes no other out.
TenantId Tenants::take_row() {
  const TenantId oldest = rows_[kOthers].next;
  Row& row = rows_[oldest];
  if (row.kind == Kind::kNamed || row.kind == Kind::kToken || row.kind == Kind::kCertificate) {
    TenantId* at = &buckets_[row.hash % kBuckets];
    while (*at != oldest) at = &rows_[*at].same_bucket;
    *at = row.same_bucket;
  }
  if (oldest != kOthers) row.kind = Kind::kFree, row.owner++;
  return oldest;
}

u64 Tenants::hash_of(Kind kind, std::string_view name) const {
  u64 hash = mix(seed_, u64(kind) << 32 | name.size());
  for (; name.size() >= 8; name.remove_prefix(8)) {
    u64 word;
    std::memcpy(&word, name.data(), 8);
    hash = mix(hash, word);
  }
  u64 rest = 0;
  if (!name.empty()) std::memcpy(&rest, name.data(), name.size());
  return mix(hash, rest);
}

u32 Tenants::weight_of(std::string_view name) const {
  const auto found =
      std::find_if(weights_.begin(), weights_.end(), [&](const auto& each) { return each.first == name; });
  return found == weights_.end() ? 1 : found->second;
}

void Tenants::unlink(Row& row) {
  rows_[row.previous].next = row.next;
  rows_[row.next].previous = row.previous;
}

void Tenants::link_last(TenantId tenant) {
  Row& end = rows_[kOthers];
  rows_[tenant].next = kOthers;
  rows_[tenant].previous = end.previous;
  rows_[end.previous].next = tenant;
  end.previous = tenant;
}

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
