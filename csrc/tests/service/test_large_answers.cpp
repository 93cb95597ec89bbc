// Large answers: who holds which, what a front door that starts again finds held, and words that lead nowhere.
#include <cstring>
#include <optional>
#include <vector>

#include "service/tables/items.h"
#include "tests/check.h"
#include "tests/made_segment.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u32 kDoor = 1;
constexpr u64 kSlotBytes = 64, kLargeBytes = 256, kLarge = 3;

struct Doors {
  Segment segment;
  Doors() {
    segment = test::made_segment({.doors = 2,
                                  .slots = 8,
                                  .max_tokens = 8,
                                  .answer_bytes = kSlotBytes,
                                  .large_answers = kLarge,
                                  .large_answer_bytes = kLargeBytes});
    memory.emplace(segment, nullptr, kDoor);
  }
  Slot& slot(u32 i) { return segment.slot(kDoor, i); }
  std::optional<DoorMemory> memory;
};

}  // namespace

TEST(a_slot_holds_one_until_it_is_free) {
  Doors doors;
  LargeAnswers large(*doors.memory);
  std::vector<u8*> places;
  for (u32 i = 0; i < kLarge; i++) {
    CHECK(large.hold(i, kSlotBytes + 1, 1));
    CHECK_EQ(doors.segment.answer_room(doors.slot(i)).size(), kLargeBytes);
    places.push_back(doors.segment.answer(doors.slot(i)));
    std::memset(places.back(), int(i + 1), kLargeBytes);
  }
  for (u32 i = 0; i < kLarge; i++)  // none overlaps another
    CHECK(places[i][0] == i + 1 && places[i][kLargeBytes - 1] == i + 1);
  CHECK(!large.hold(3, kSlotBytes + 1, 1));
  CHECK(large.hold(3, kSlotBytes, 1));
  CHECK_EQ(doors.segment.answer_room(doors.slot(3)).size(), kSlotBytes);
  large.release(3);  // it held none
  CHECK(!large.hold(3, kLargeBytes, 1));
  large.release(1);
  CHECK(!large.hold(3, kLargeBytes + 1, 1));
  CHECK(large.hold(3, kLargeBytes, 1));
  CHECK(doors.segment.answer(doors.slot(3)) == places[1]);
}

TEST(each_owner_s_places_are_counted) {
  Doors doors;
  LargeAnswers large(*doors.memory);
  CHECK(large.hold(0, kLargeBytes, 7) && large.hold(1, kLargeBytes, 2) && large.hold(2, kLargeBytes, 7));
  CHECK(large.hold(3, kSlotBytes, 7) && large.fits(kSlotBytes) && !large.fits(kSlotBytes + 1));
  CHECK(large.of(7) == 2 && large.of(2) == 1 && !large.of(1) && !large.of(100) && !large.free());
  large.release(0), large.release(0), large.release(3);
  CHECK(large.of(7) == 1 && large.of(2) == 1 && large.free() == 1);
}

TEST(a_door_that_starts_again_leaves_what_is_held) {
  Doors doors;
  {
    LargeAnswers large(*doors.memory);
    for (u32 i = 0; i < kLarge; i++) CHECK(large.hold(i, kLargeBytes, 1));
  }
  doors.slot(0).state = Word::make(State::kDone, 1).bits;
  doors.slot(2).state = Word::make(State::kQueued, 1).bits;  // slot 1 was never put
  u8* const held = doors.segment.answer(doors.slot(0));
  LargeAnswers large(*doors.memory);
  CHECK(large.hold(4, kLargeBytes, 1));
  CHECK(doors.segment.answer(doors.slot(4)) != held);
  CHECK(!large.hold(5, kLargeBytes, 1));
  large.release(0);
  CHECK(large.hold(5, kLargeBytes, 1));
  CHECK(doors.segment.answer(doors.slot(5)) == held);
}

TEST(a_wrong_word_leads_nowhere) {
  Doors doors;
  u8* const own = doors.segment.answer(doors.slot(0));
  for (const u32 wrong : {u32(2 * kLarge + 1), ~u32(0)}) {
    doors.slot(0).large_answer = wrong;
    CHECK(doors.segment.answer(doors.slot(0)) == own);
    CHECK_EQ(doors.segment.answer_room(doors.slot(0)).size(), kSlotBytes);
  }
  // Of slots that are not free: another door's, the same one twice. Of a free one: its predecessor's.
  const u32 first = kDoor * kLarge + 1;
  for (const auto& [i, large_answer] : {std::pair{0u, 1u}, {1u, first}, {2u, first}, {3u, first + 1}}) {
    doors.slot(i).large_answer = large_answer;
    doors.slot(i).state = Word::make(i == 3 ? State::kFree : State::kDone, 1).bits;
  }
  LargeAnswers large(*doors.memory);
  for (const u32 i : {0, 2, 3}) large.release(i);  // none of them holds one
  CHECK(large.hold(4, kLargeBytes, 1) && large.hold(5, kLargeBytes, 1) && !large.hold(6, kLargeBytes, 1));
  large.release(1);
  large.release(1);
  CHECK(large.hold(6, kLargeBytes, 1) && !large.hold(7, kLargeBytes, 1));
}
