// Whose an item is, and which tenants keep their place in the table.
#include <map>
#include <random>

#include "tests/check.h"
#include "tests/service/named_tenants.h"

using namespace fastqps;
using namespace fastqps::test;

TEST(what_is_said_first_counts) {
  Tenants tenants({.tenant_weights = {{"field", 5}, {"header", 6}, {"token:0000beef", 7}, {"certificate:CN=b", 8}}});
  CallNames names;
  CHECK(names.tenant.take("header"));
  CHECK(names.group.take("siblings"));
  CallInfo info = call_of(3);
  const auto check = [&](const RequestView& view, const char* name, u32 weight) {
    const TenantId tenant = hold(tenants, view, info);
    CHECK_EQ(std::string(tenants.name(tenant)), name);
    CHECK_EQ(tenants.weight(tenant), weight);
    CHECK_EQ(tenants.of(view, info), tenant);
  };
  check({}, "connection", 1);
  info.caller.certificate = "CN=a";
  check({}, "certificate:CN=a", 1);
  info.caller.certificate = "CN=b";
  check({}, "certificate:CN=b", 8);
  info.caller.token = 0xbeef;
  check({}, "token:0000beef", 7);
  info.caller.names = &names;
  check({}, "header", 6);
  check(of_tenant("field"), "field", 5);
  CHECK_EQ(std::string(group_of({}, info)), "siblings");
  RequestView sibling;
  sibling.group = "own";
  CHECK_EQ(std::string(group_of(sibling, info)), "own");
  CHECK(group_of({}, call_of(3)).empty());
}

TEST(a_tenant_is_the_same_over_all_connections_and_no_other) {
  Tenants tenants;
  const TenantId a = hold(tenants, of_tenant("a"), call_of(0));
  CHECK_EQ(tenants.of(of_tenant("a"), call_of(900)), a);
  CHECK(tenants.of(of_tenant("b"), call_of(0)) != a);
  // A name is not the token or the certificate that looks alike.
  CallInfo with_token = call_of(0);
  with_token.caller.token = 1;
  const TenantId token = hold(tenants, {}, with_token);
  CHECK(hold(tenants, of_tenant("token:00000001"), call_of(0)) != token);
  CHECK(hold(tenants, of_tenant("00000001"), call_of(0)) != token);
  // Connections, also those that have had the same place.
  const TenantId first = hold(tenants, {}, call_of(7, 1)), second = hold(tenants, {}, call_of(7, 2));
  CHECK(first != second && hold(tenants, {}, call_of(8, 1)) != second);
  CHECK_EQ(tenants.of({}, call_of(7, 2)), second);
}

TEST(names_that_are_not_trusted_are_ignored) {
  Tenants tenants({.tenant_header = "", .tenant_weights = {{"a", 9}}});
  CallNames names;
  CHECK(names.tenant.take("a"));
  CallInfo info = call_of(1);
  const TenantId own = hold(tenants, {}, info);
  info.caller.names = &names;
  CHECK_EQ(tenants.of(of_tenant("a"), info), own);
  CHECK_EQ(tenants.weight(own), 1u);
}

TEST(a_tenant_beyond_those_with_items_is_one_of_the_others) {
  Tenants tenants;
  std::vector<TenantId> held;
  for (u32 i = 0; i < Tenants::kTracked; i++) {
    held.push_back(hold(tenants, i % 2 ? of_tenant("t" + std::to_string(i)) : RequestView{}, call_of(i)));
    CHECK(held.back() != Tenants::kOthers);
  }
  const TenantId over = hold(tenants, of_tenant("over"), call_of(0));
  CHECK_EQ(over, Tenants::kOthers);
  CHECK_EQ(hold(tenants, {}, call_of(9999)), Tenants::kOthers);
  CHECK_EQ(std::string(tenants.name(Tenants::kOthers)), "others");
  CHECK_EQ(tenants.of(of_tenant("t5"), call_of(0)), held[5]);
  tenants.release(held[5]);
  CHECK_EQ(tenants.of(of_tenant("t5"), call_of(0)), held[5]);  // nobody has needed its row
  CHECK_EQ(hold(tenants, of_tenant("over"), call_of(0)), held[5]);
  CHECK_EQ(tenants.of(of_tenant("t5"), call_of(0)), Tenants::kOthers);
  tenants.release(over);
}

TEST(the_row_without_items_for_longest_goes_first) {
  Tenants tenants;
  std::vector<TenantId> rows;
  for (u32 i = 0; i < Tenants::kTracked; i++) rows.push_back(hold(tenants, of_tenant(std::to_string(i)), call_of(0)));
  for (u32 i : {3, 1, 2}) tenants.release(rows[i]);
  tenants.hold(tenants.of(of_tenant("3"), call_of(0)));
  tenants.release(rows[3]);  // the last one now
  CHECK_EQ(hold(tenants, of_tenant("new 1"), call_of(0)), rows[1]);
  // One whose items are refused takes the place of nobody but the next.
  CHECK_EQ(tenants.of(of_tenant("refused 1"), call_of(0)), rows[2]);
  CHECK_EQ(tenants.of(of_tenant("refused 2"), call_of(0)), rows[2]);
  CHECK_EQ(tenants.of(of_tenant("3"), call_of(0)), rows[3]);
}

// Against a map of those that hold items, over many arrivals and departures.
TEST(no_two_tenants_with_items_share_a_row) {
  Tenants tenants;
  std::mt19937 random(7);
  std::map<std::string, std::pair<TenantId, u32>> holding;  // the row and the items of each
  std::map<TenantId, std::string> owner;
  std::vector<std::string> items;
  for (int i = 0; i < 300'000; i++) {
    if (items.size() < 6000 && random() % 5 < 3) {
      const u32 number = random() % 5000;
      const std::string name = (number % 2 ? "name" : "connection ") + std::to_string(number);
      const TenantId tenant =
          hold(tenants, number % 2 ? of_tenant(name) : RequestView{}, call_of(number % 2 ? 0 : number));
      auto& [row, count] = holding[name];
      if (count && row != Tenants::kOthers) CHECK_EQ(tenant, row);
      if (tenant == Tenants::kOthers) {
        CHECK(owner.size() == Tenants::kTracked || count);
        tenants.release(tenant);
        if (!count) holding.erase(name);
        continue;
      }
      if (!count) CHECK(owner.emplace(tenant, name).second);
      row = tenant, count++;
      items.push_back(name);
    } else if (!items.empty()) {
      std::swap(items[random() % items.size()], items.back());
      auto& [row, count] = holding[items.back()];
      tenants.release(row);
      if (!--count) {
        owner.erase(row);
        holding.erase(items.back());
      }
      items.pop_back();
    }
  }
  CHECK(owner.size() > 1000);
}
