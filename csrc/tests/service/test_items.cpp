// What an item holds in the tables of the service, from its acceptance to its release; there is neither a loop nor a
// transport.
#include "service/predict_service.h"
#include "tests/check.h"
#include "tests/made_segment.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u64 kDueNs = 1000;
constexpr u32 kItems = 3;

struct World {
  Segment segment =
      made_segment({.slots = 8, .max_tokens = 8, .answer_bytes = 64, .large_answers = 1, .large_answer_bytes = 256});
  WakeFds fds;
  SlotEvents events{tables, answers};
  Tables tables{segment, &fds, PredictOptions{}, events};
  AnswerPath answers{tables};
  CallInfo info{};
  u32 group = tables.groups.open(
      {}, {.kind = GroupKind::kTogether, .method = kOther, .writer = nullptr, .items = kItems}, info);

  // As Intake::accept does it, with a row in every table.
  void begin(u32 slot, TenantId tenant) {
    RequestView view;
    view.priority = 3;
    tables.items.begin(slot, view, {.call = {}, .info = &info, .method = kOther, .group = group}, 0, {});
    tables.items.spans.of(slot).resize(2);
    tables.items.hold(slot, tenant, "siblings", kDueNs);
    tables.items.generations.open(slot);
  }
  u32 expired() {
    u32 n = 0;
    tables.items.deadlines.advance(kDueNs, [&](u32) { return n++, Deadlines::kNone; });
    return n;
  }
  u32 held() {
    tables.memory.segment.supervisor().flips++;
    tables.routes.report_held();
    return tables.memory.segment.door_route(0, 0).held;
  }
};

}  // namespace

TEST(release_gives_back_what_an_item_holds) {
  World w;
  Items& items = w.tables.items;
  for (u32 slot = 0; slot < kItems; slot++) w.begin(slot, 1);
  CHECK(items.large_answers.hold(0, 256, 1) && !items.large_answers.hold(1, 256, 1));
  CHECK_EQ(w.held(), kItems);
  CHECK_EQ(w.tables.groups.open_items(w.group), kItems);
  CHECK_EQ(items.counts.slots(1, kHigh), kItems);
  CHECK_EQ(items.counts.waiting(1, 0, kHigh), kItems);
  CHECK_EQ(items.generations.open(), kItems);
  for (u32 left = kItems; left-- > 0;) {
    items.release(left);
    items.release(left);  // holds nothing more
    CHECK_EQ(w.held(), left);
    CHECK_EQ(w.tables.groups.open_items(w.group), left);
    CHECK_EQ(items.counts.slots(1, kHigh), left);
    CHECK_EQ(items.counts.waiting(1, 0, kHigh), left);
    CHECK_EQ(items.generations.open(), left);
    CHECK(items.spans[left].empty());
  }
  CHECK(items.large_answers.hold(1, 256, 1));
  CHECK_EQ(w.expired(), 0u);
}

TEST(an_item_that_was_never_accepted_holds_only_its_input) {
  World w;
  Items& items = w.tables.items;
  items.begin(0, {}, {.call = {}, .info = &w.info, .method = kOther, .group = w.group}, 0, {});
  items.spans.of(0).resize(2);
  items.release(0);
  CHECK(items.spans[0].empty());
  CHECK_EQ(w.held(), 0u);
  CHECK_EQ(w.tables.groups.open_items(w.group), 0u);
}

// The call of a group that is gone counts against its connection until its last item is released; then the group is
// free.
TEST(the_last_item_frees_the_group_of_a_call_that_has_ended) {
  World w;
  for (u32 slot = 0; slot < kItems; slot++) w.begin(slot, 1);
  w.tables.groups[w.group].gone = true;
  for (u32 slot = 0; slot < kItems; slot++) {
    CHECK_EQ(w.tables.groups.open({}, {.kind = GroupKind::kEach, .method = kOther, .writer = nullptr}, w.info),
             w.group + 1 + slot);
    w.tables.items.release(slot);
  }
  CHECK_EQ(w.tables.groups.open({}, {.kind = GroupKind::kEach, .method = kOther, .writer = nullptr}, w.info), w.group);
}
