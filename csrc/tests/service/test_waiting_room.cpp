// The order in which a front door's held-back items are served: tenants by weight, siblings together.
#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>

#include "service/tables/waiting_room.h"
#include "tests/made_segment.h"
#include "tests/service/named_tenants.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

struct Room {
  explicit Room(u32 slots = 512) {
    segment = test::made_segment({.doors = 1, .dispatchers = 1, .models = 2, .slots = slots, .max_tokens = 8});
    memory = std::make_unique<DoorMemory>(segment, nullptr, 0);
    room = std::make_unique<WaitingRoom>(*memory, tenants);
  }
  void add(u32 slot, TenantId tenant, const std::string& group = "", u32 tokens = 1, u32 kind = kNormal) {
    if (!group.empty()) room->join(slot, group, tenant, 0, kind);
    room->add(slot, {0, kind, tenant, tokens, 1000 + slot});
  }
  u32 take(u32 kind = kNormal) {
    const auto next = room->take(0, kind);
    CHECK_EQ(next.since_ns, 1000u + next.slot);
    return next.slot;
  }
  std::vector<u32> all() {
    std::vector<u32> found;
    while (room->size(0, kNormal)) found.push_back(take());
    return found;
  }
  // The row of a tenant that has an item.
  TenantId hold(const std::string& name) { return test::hold(tenants, of_tenant(name)); }
  // The last item of a tenant is answered, and so many others come that one of them has its row.
  void change_owner(TenantId tenant) {
    tenants.release(tenant);
    for (u32 i = 0; hold("other " + std::to_string(i)) != tenant; i++) CHECK(i < Tenants::kTracked);
  }
  u32 told(u32 kind = kNormal) { return segment.door_route(0, 0).held_back[kind].load(); }

  Segment segment;
  Tenants tenants;
  std::unique_ptr<DoorMemory> memory;
  std::unique_ptr<WaitingRoom> room;
};
using List = std::vector<u32>;

}  // namespace

TEST(one_tenant_is_served_in_order) {
  Room r;
  for (u32 slot : {5, 3, 9}) r.add(slot, 1);
  CHECK_EQ(r.told(), 3u);
  CHECK(r.all() == (List{5, 3, 9}));
  CHECK_EQ(r.told(), 0u);
  CHECK(!r.room->has(3));
}

TEST(tenants_take_turns_by_tokens) {
  Room r;
  for (u32 i = 0; i < 6; i++) r.add(i, 1, "", 40);
  for (u32 i = 0; i < 6; i++) r.add(10 + i, 2, "", 20);
  u32 first = 0;
  for (u32 i = 0; i < 6; i++) first += r.take() < 10;
  CHECK_EQ(first, 2u);  // 80 tokens of each
}

TEST(a_tenant_that_had_nothing_comes_first) {
  Room r;
  for (u32 i = 0; i < 100; i++) r.add(i, 1);
  for (u32 i = 0; i < 50; i++) r.take();
  r.add(200, 2, "", 20);
  r.add(201, 2, "", 20);
  CHECK_EQ(r.take(), 200u);
  CHECK_EQ(r.take(), 50u);  // and has saved nothing up
  u32 others = 1;
  for (; r.take() != 201; others++) {}
  CHECK(others >= 20 && others <= 21 + u32(WaitingRoom::kGrain));
}

// The tenants of a round that have not been served in it are no reason to wait either.
TEST(a_quiet_tenant_is_next_among_many_greedy_ones) {
  constexpr TenantId kGreedy = 64, kQuiet = kGreedy + 1;
  constexpr u32 kItems = 4, kOwn = 500;
  Room r;
  const auto refill = [&](u32 slot) { r.add(slot, TenantId(1 + slot % kGreedy), "", 5); };
  for (u32 slot = 0; slot < kGreedy * kItems; slot++) refill(slot);
  for (u32 taken = 1; taken < 5000; taken++) {
    if (taken > 800 && taken % 300 == 0) {  // at first all are new
      r.add(kOwn, kQuiet, "", 5);
      CHECK_EQ(r.take(), kOwn);
    }
    refill(r.take());
  }
}

// Each call by a connection of its own, for more than there is.
TEST(tenants_without_end_leave_their_shares_to_those_that_stay) {
  constexpr u32 kNew = 50, kStay = 4, kTaken = 10'000;
  Room r;
  u32 comes = kStay, slot_of_next = 256;
  std::vector<u32> served(kStay + 1);
  for (u32 slot = 0; slot < kStay * 8; slot++) r.add(slot, TenantId(1 + slot % kStay), "", 5);
  for (u32 i = 0; i < kNew; i++) r.add(slot_of_next++, TenantId(++comes), "", 5);
  for (u32 taken = 0; taken < kTaken; taken++) {
    const u32 slot = r.take();
    if (slot < 256) {
      served[1 + slot % kStay]++;
      r.add(slot, TenantId(1 + slot % kStay), "", 5);
    } else {
      comes = comes < 4000 ? comes + 1 : kStay + 1;
      r.add(slot, TenantId(comes), "", 5);
    }
  }
  for (u32 tenant = 1; tenant <= kStay; tenant++) CHECK(served[tenant] >= kTaken / (kNew + kStay));
  CHECK(std::accumulate(served.begin(), served.end(), 0u) <= kTaken * 3 / 10);
}

// Also where each of the others has left the line when the next newcomer comes.
TEST(newcomers_go_on_passing) {
  constexpr u32 kOthers = 40, kNew = 100;
  Room r;
  u32 tenant = 1000, waits_most = 0;
  std::vector<u32> came(kNew + 256);
  std::deque<u32> free_slots;
  for (u32 i = 0; i < 256; i++) free_slots.push_back(kNew + i);
  for (u32 slot = 0; slot < kOthers; slot++) r.add(slot, TenantId(1 + slot), "", 20);
  for (u32 now = 1; now < 2000; now++) {
    const u32 slot = r.take();
    if (now % 2) {
      came[free_slots.front()] = now;
      r.add(free_slots.front(), TenantId(++tenant), "", 20);
      free_slots.pop_front();
    }
    if (slot < kNew) {
      r.add(slot, TenantId(1 + slot), "", 20);
    } else {
      if (came[slot] > 200) waits_most = std::max(waits_most, now - came[slot]);  // at first all are new
      free_slots.push_back(slot);
    }
  }
  CHECK(waits_most <= 2);
}

// A tenant with one item at a time is new in line each time, and is not served more often for it.
TEST(to_have_nothing_in_line_now_and_then_saves_nothing_up) {
  constexpr u32 kEach = 10, kBacklog = 8, kTokens = 5;
  Room r;
  const auto tenant_of = [](u32 slot) { return TenantId(1 + (slot < kEach ? slot : kEach + slot % kEach)); };
  for (u32 slot = 0; slot < kEach * (1 + kBacklog); slot++) r.add(slot, tenant_of(slot), "", kTokens);
  std::vector<u32> served(2 * kEach + 1);
  for (u32 taken = 0; taken < 10'000; taken++) {
    const u32 slot = r.take();
    served[tenant_of(slot)] += kTokens;
    r.add(slot, tenant_of(slot), "", kTokens);
  }
  const auto [least, most] = std::minmax_element(served.begin() + 1, served.end());
  CHECK(*most <= *least + 2 * u32(WaitingRoom::kGrain + kTokens));
}

// Not the end of the former one's turn, either.
TEST(the_next_tenant_of_a_row_is_served_no_longer_than_others) {
  Room r;
  const TenantId row = r.hold("first"), other = r.hold("busy");
  for (u32 i = 0; i < 200; i++) r.add(i, other);
  for (u32 i = 0; i < 100; i++) r.take();
  r.add(200, row);
  CHECK_EQ(r.take(), 200u);
  CHECK_EQ(r.take(), 100u);
  r.change_owner(row);
  for (u32 i = 300; i < 400; i++) r.add(i, row);
  u32 taken = 0;
  while (r.take() >= 300) taken++;
  CHECK(taken >= 1 && taken <= u32(WaitingRoom::kGrain) + 2);
}

// It comes like any tenant that had nothing in line, whatever the former one has had.
TEST(the_next_tenant_of_a_row_waits_for_no_turn_of_the_former_one) {
  Room r;
  const TenantId row = r.hold("first"), other = r.hold("busy");
  r.add(0, row, "", 1000);
  r.add(1, row);
  for (u32 i = 10; i < 100; i++) r.add(i, other);
  CHECK_EQ(r.take(), 0u);
  CHECK_EQ(r.take(), 10u);
  r.room->remove(1);
  const u64 weights = r.room->weights(0, kNormal);
  r.change_owner(row);
  r.add(300, row);
  CHECK_EQ(r.room->weights(0, kNormal), weights);
  u32 before = 0;
  while (r.take() != 300) before++;
  CHECK(before <= u32(WaitingRoom::kGrain));  // the turn of another one that has just come
}

TEST(siblings_stand_together) {
  Room r;
  r.add(0, 1);
  r.add(1, 1, "a");
  r.add(2, 1);
  r.add(3, 1, "b");
  r.add(4, 1, "a");
  r.add(5, 1, "b");
  CHECK(r.all() == (List{0, 1, 4, 2, 3, 5}));
}

TEST(siblings_are_served_as_a_whole_between_other_tenants) {
  Room r;
  for (u32 i = 0; i < 4; i++) r.add(i, 1, "a");
  for (u32 i = 10; i < 20; i++) r.add(i, 2);
  List found = r.all();
  CHECK(List(found.begin(), found.begin() + 4) == (List{0, 1, 2, 3}));
  r.add(20, 1);  // it has had four, and the other ten
  r.add(21, 2);
  CHECK_EQ(r.take(), 20u);
}

TEST(nobody_who_comes_meanwhile_parts_siblings) {
  Room r;
  for (u32 i = 0; i < 4; i++) r.add(i, 1, "a", 40);
  r.add(10, 1);
  CHECK_EQ(r.take(), 0u);
  r.add(20, 2);
  CHECK(r.all() == (List{1, 2, 3, 20, 10}));
}

TEST(a_sibling_that_comes_late_stands_where_the_first_stood) {
  Room r;
  r.add(0, 1, "a");
  for (u32 i = 1; i < 5; i++) r.add(i, 1);
  CHECK_EQ(r.take(), 0u);
  r.add(10, 1, "a");
  r.add(11, 1, "a");
  r.add(12, 1, "b");
  CHECK(r.all() == (List{10, 11, 1, 2, 3, 4, 12}));
  for (u32 slot : {0, 10, 11}) r.room->leave(slot);  // all are answered: the next one begins a group
  r.add(20, 1);
  r.add(21, 1, "a");
  CHECK(r.all() == (List{20, 21}));
}

TEST(a_group_passes_nobody_with_more_than_its_bound) {
  Room r(1024);
  r.add(0, 1);
  r.add(1, 1, "a");
  r.add(2, 1);
  for (u32 i = 0; i < WaitingRoom::kSiblings + 10; i++) r.add(100 + i, 1, "a");
  List found = r.all();
  CHECK_EQ(found[WaitingRoom::kSiblings + 1], 2u);
  CHECK_EQ(found.size(), size_t(WaitingRoom::kSiblings + 13));
}

// One name on every call is no way past others: as many as stand together are served, and the rest line up.
TEST(a_group_that_is_refilled_is_not_served_for_ever) {
  Room r(1024);
  u32 next = 0;
  for (; next < 8; next++) r.add(next, 1, "a");
  r.take();
  r.add(1000, 2);
  u32 taken = 1;
  for (; taken < 500; taken++) {
    if (r.take() == 1000) break;
    r.add(next++, 1, "a");
  }
  CHECK(taken <= WaitingRoom::kSiblings);
}

TEST(a_group_is_paid_for_before_the_next_one) {
  Room r;
  for (u32 i = 0; i < 20; i++) r.add(i, 1, i < 10 ? "a" : "b", 4);
  for (u32 i = 100; i < 120; i++) r.add(i, 2);
  List found = r.all();
  CHECK(List(found.begin(), found.begin() + 10) == (List{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  CHECK(std::find(found.begin(), found.end(), 10u) - found.begin() >= 29);
}

// Two names that the hash takes for one, in two classes: each stands where it belongs.
TEST(names_with_one_hash_are_not_one_group) {
  Room r;
  r.add(0, 1, "000012c2", 1, kNormal);
  r.add(1, 1, "h$HPsm_6", 1, kLow);
  r.add(2, 1, "h$HPsm_6", 1, kLow);
  CHECK_EQ(r.take(kLow), 1u);
  CHECK_EQ(r.take(kLow), 2u);
  CHECK_EQ(r.take(kNormal), 0u);
}

TEST(the_same_name_is_another_group_beside_another_tenant) {
  Room r;
  r.add(0, 1, "a");
  r.add(1, 1);
  r.add(2, 2, "a");
  r.add(3, 1, "a");
  List found = r.all();
  CHECK(found == (List{0, 3, 2, 1}) || found == (List{0, 3, 1, 2}));
}

// Greedy tenants with short items, one with long ones, and a quiet one, which waits about as long as one of the long
// ones takes.
TEST(what_others_have_had_is_no_reason_to_wait) {
  constexpr u32 kGreedy = 4, kTokens = 50, kLongTokens = 512, kQuietTokens = 20, kLong = 100, kQuiet = 200, kEnd = 300;
  Room r;
  std::mt19937 random(7);
  std::vector<u64> came(kEnd), waits;
  u64 now = 0, next_long = 0, next_quiet = 0;
  u32 long_slot = kLong, quiet_slot = kQuiet;
  for (u32 slot = 0; slot < kGreedy * 4; slot++) r.add(slot, TenantId(1 + slot % kGreedy), "", kTokens);
  while (now < 400'000) {
    for (; next_long < now; next_long += 2000 + random() % 4000) {
      r.add(long_slot, kGreedy + 1, "", kLongTokens);
      if (++long_slot == kQuiet) long_slot = kLong;
    }
    for (; next_quiet < now; next_quiet += 500 + random() % 1000) {
      came[quiet_slot] = now;
      r.add(quiet_slot, kGreedy + 2, "", kQuietTokens);
      if (++quiet_slot == kEnd) quiet_slot = kQuiet;
    }
    const u32 slot = r.take();
    if (slot >= kQuiet) waits.push_back(now - came[slot]);
    now += slot < kLong ? kTokens : slot < kQuiet ? kLongTokens : kQuietTokens;
    if (slot < kLong) r.add(slot, TenantId(1 + slot % kGreedy), "", kTokens);
  }
  std::sort(waits.begin(), waits.end());
  CHECK(waits.size() > 300 && waits[waits.size() * 99 / 100] <= kLongTokens + 2 * kTokens);
}

// The tenant that is being served has no turn in line, and may have the most.
TEST(who_is_being_served_gives_its_youngest_too) {
  Room r;
  for (u32 i = 0; i < 3; i++) r.add(i, 1, "", 20), r.add(10 + i, 2, "", 20);
  for (const u32 slot : {0, 10, 1, 11}) CHECK_EQ(r.take(), slot);
  r.room->remove(2);
  CHECK_EQ(r.room->most(0, kNormal), 1.0);
  CHECK_EQ(r.room->youngest(0, kNormal), 12u);
}

TEST(who_has_most_gives_its_youngest) {
  Room r;
  r.add(0, 1);
  for (u32 i = 10; i < 15; i++) r.add(i, 2);
  CHECK_EQ(r.room->youngest(0, kNormal), 14u);
  r.room->remove(14);
  CHECK_EQ(r.room->youngest(0, kNormal), 13u);
  CHECK_EQ(r.told(), 5u);
}

// Against a list of lists: random arrivals, takes and withdrawals, in two classes.
TEST(nothing_is_lost_and_tenants_keep_their_order) {
  std::mt19937 random(7);
  const auto pick = [&](u32 n) { return u32(random() % n); };
  for (u32 round = 0; round < 40; round++) {
    Room r(256);
    std::vector<u32> free;
    for (u32 i = 0; i < 256; i++) free.push_back(i);
    struct Waits {
      TenantId tenant;
      u32 kind;
      u64 number;
      std::string group;
    };
    std::unordered_map<u32, Waits> waits;
    u64 number = 0, last[2][8] = {};
    for (u32 step = 0; step < 3000; step++) {
      const u32 what = pick(5), kind = kNormal + pick(2);
      if (what < 2 && !free.empty()) {
        const u32 slot = free.back();
        free.pop_back();
        const Waits item{TenantId(1 + pick(6)), kind, ++number, pick(3) ? "" : std::string(1, char('a' + pick(4)))};
        r.add(slot, item.tenant, item.group, 1 + pick(9), kind);
        waits.emplace(slot, item);
      } else if (what < 4 && r.room->size(0, kind)) {
        const u32 slot = r.take(kind);
        CHECK(waits.count(slot) && waits.at(slot).kind == kind);
        const Waits& item = waits.at(slot);
        if (item.group.empty()) {  // those without siblings keep their order
          CHECK(item.number > last[kind - kNormal][item.tenant]);
          last[kind - kNormal][item.tenant] = item.number;
        }
        waits.erase(slot), free.push_back(slot), r.room->leave(slot);
      } else if (what == 4 && !waits.empty()) {
        const u32 slot = std::next(waits.begin(), pick(u32(waits.size())))->first;
        r.room->remove(slot), r.room->leave(slot);
        waits.erase(slot), free.push_back(slot);
      }
      CHECK_EQ(r.room->size(), u32(waits.size()));
    }
    while (r.room->size(0, kNormal)) waits.erase(r.take());
    while (r.room->size(0, kLow)) waits.erase(r.take(kLow));
    CHECK(waits.empty() && r.told() == 0 && r.told(kLow) == 0);
  }
}
