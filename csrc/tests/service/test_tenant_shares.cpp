// Which tenants of a front door metrics show by name, and that nothing is lost when another one takes a row.
#include <cstdio>
#include <memory>
#include <string>

#include "service/tables/tenants.h"
#include "tests/made_segment.h"
#include "tests/service/named_tenants.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u64 kMinuteNs = 60'000'000'000;

struct Door {
  Door() {
    memory = std::make_unique<DoorMemory>(segment, nullptr, 0);
    start();
  }
  void start() {
    tenants = std::make_unique<Tenants>();
    shares = std::make_unique<TenantShares>(*memory, *tenants);
  }
  TenantId of(const std::string& name) { return hold(*tenants, of_tenant(name)); }
  void take(const std::string& name, u32 tokens, u64 now = 1) { shares->accepted(of(name), tokens, now); }
  TenantTable& table() { return segment.tenant_table(0); }
  // Items, tokens and refused of a name, as "1 2 3"; empty: it has no row.
  std::string counts(const std::string& name) {
    TenantRow::Reading found;
    for (const TenantRow& row : table().row)
      if (row.read(found) && found.name == name) return said(found.items, found.tokens, found.refused);
    return "";
  }
  std::string all() { return said(table().all.items, table().all.tokens, table().all.refused); }
  static std::string said(u64 items, u64 tokens, u64 refused) {
    return std::to_string(items) + " " + std::to_string(tokens) + " " + std::to_string(refused);
  }
  // Each has had so many tokens, by one item.
  void fill(u32 tokens) {
    for (u32 i = 0; i < kTenantRows; i++) take("t" + std::to_string(i), tokens + i);
  }

  Segment segment = test::made_segment({.slots = 16, .max_tokens = 8});
  std::unique_ptr<DoorMemory> memory;
  std::unique_ptr<Tenants> tenants;
  std::unique_ptr<TenantShares> shares;
};

}  // namespace

TEST(items_tokens_and_refusals_are_counted_by_name) {
  Door door;
  door.take("a", 5), door.take("b", 7), door.take("a", 1);
  door.shares->generated(door.of("a"), 30);
  door.shares->refused(door.of("b"));
  door.shares->refused(door.of("c"));
  CHECK_EQ(door.counts("a"), "2 36 0");
  CHECK_EQ(door.counts("b"), "1 7 1");
  CHECK_EQ(door.counts("c"), "");  // a row is for those that are served
  CHECK_EQ(door.all(), "3 43 2");
}

TEST(a_row_changes_hands_when_another_has_clearly_more) {
  Door door;
  door.fill(1000);
  door.take("new", 1999), door.take("new", 1);
  CHECK_EQ(door.counts("new"), "");
  CHECK_EQ(door.counts("t0"), "1 1000 0");
  door.take("new", 1);
  CHECK_EQ(door.counts("t0"), "");
  CHECK_EQ(door.counts("new"), "1 1 0");  // what it had before is the others'
  door.take("t0", 2002);
  CHECK_EQ(door.counts("t0"), "");  // twice what t1 has, and no more
  door.take("t0", 1);
  CHECK_EQ(door.counts("t0"), "1 1 0");
  CHECK_EQ(door.counts("t1"), "");
}

TEST(what_a_tenant_has_had_long_ago_counts_less) {
  Door door;
  door.fill(100'000);
  door.take("new", 30'000, 2 * kMinuteNs);
  CHECK_EQ(door.counts("new"), "");
  door.take("new", 12'000, 4 * kMinuteNs);  // 15,000 and 12,000, of t0 25,000
  CHECK_EQ(door.counts("new"), "");
  door.take("new", 24'000, 4 * kMinuteNs);
  CHECK_EQ(door.counts("new"), "1 24000 0");
  CHECK_EQ(door.counts("t0"), "");
}

TEST(tenants_with_few_tokens_leave_rows_alone) {
  Door door;
  door.fill(1);
  for (u32 i = 0; i < 1000; i++) door.take("n" + std::to_string(i), 1000);
  CHECK_EQ(door.counts("t0"), "1 1 0");
  CHECK_EQ(door.all(), Door::said(1032, 1'000'000 + 32 * 33 / 2, 0));
}

TEST(a_restarted_door_goes_on_with_its_rows) {
  Door door;
  door.take("a", 5);
  door.take("b", 6);
  door.table().row[1].name.changes.fetch_add(1);  // it died while b's row changed hands
  door.start();
  door.take("a", 1);
  CHECK_EQ(door.counts("a"), "2 6 0");
  CHECK_EQ(door.counts("b"), "");
  door.take("c", 2);
  CHECK_EQ(door.counts("c"), "1 2 0");
}

TEST(a_row_that_changes_hands_is_not_read) {
  Door door;
  door.take("a", 5);
  TenantRow::Reading found;
  CHECK(door.table().row[0].read(found));
  CHECK(!door.table().row[1].read(found));
  door.table().row[0].name.changes.fetch_add(1);
  CHECK(!door.table().row[0].read(found));
}

TEST(long_names_are_cut_between_characters) {
  Door door;
  const std::string ends(62, 'x');
  door.take(ends + "\xc3\xa9", 1);
  door.take(ends + "\xc3\xa8", 1);
  CHECK_EQ(door.counts(ends), "2 2 0");
}
