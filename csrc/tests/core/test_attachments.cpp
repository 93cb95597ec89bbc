// Attachments of requests: equal bytes once, what a front door that starts again finds held, and words that lead
// nowhere.
#include <string>

#include "core/attachments.h"
#include "tests/check.h"
#include "tests/made_segment.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u32 kDoor = 1;
constexpr u32 kBlock = Attachments::kBlockBytes;
constexpr u32 kRoom = 16 * kBlock;

struct Door {
  Segment segment =
      made_segment({.doors = 2, .slots = 8, .max_tokens = 8, .answer_bytes = 64, .attachment_bytes = kRoom});

  Slot& slot(u32 i) const { return segment.slot(kDoor, i); }
  std::string_view read(u32 i, AttachmentKind kind = AttachmentKind::kStructure) const {
    return segment.attached(kDoor, slot(i), kind);
  }
  void launch(u32 i) const { slot(i).state.store(Word::make(State::kLaunched, 1, 0, 1).bits, kRelease); }
};

}  // namespace

TEST(equal_bytes_lie_there_once_until_the_last_slot_is_free) {
  Door door;
  Attachments attachments(door.segment, kDoor);
  const std::string large(kRoom / 2, 'x'), other(kRoom / 2, 'y');
  CHECK(attachments.hold(0, AttachmentKind::kStructure, large) &&
        attachments.hold(1, AttachmentKind::kStructure, large));
  CHECK(attachments.hold(2, AttachmentKind::kStructure, "a"));
  CHECK_EQ(door.read(0), large);
  CHECK(door.read(0).data() == door.read(1).data());
  CHECK_EQ(door.read(2), "a");
  CHECK(!attachments.hold(3, AttachmentKind::kStructure, other));
  CHECK(door.read(3).empty());
  attachments.release(0);
  CHECK(door.read(0).empty());
  CHECK(!attachments.hold(3, AttachmentKind::kStructure, other));
  CHECK_EQ(door.read(1), large);
  attachments.release(1);
  attachments.release(1);  // it holds none any more
  CHECK(attachments.hold(3, AttachmentKind::kStructure, other));
  CHECK_EQ(door.read(3), other);
  CHECK_EQ(door.read(2), "a");
}

TEST(a_slot_holds_each_part_by_itself) {
  Door door;
  Attachments attachments(door.segment, kDoor);
  const std::string half(kRoom / 2, 'x');
  CHECK(attachments.hold(0, AttachmentKind::kStructure, "a") && attachments.hold(0, AttachmentKind::kLogitBias, half));
  CHECK(attachments.hold(1, AttachmentKind::kLogitBias, "a"));
  CHECK_EQ(door.read(0), "a");
  CHECK_EQ(door.read(0, AttachmentKind::kLogitBias), half);
  CHECK(door.read(1).empty());
  CHECK(door.read(1, AttachmentKind::kLogitBias).data() == door.read(0).data());
  attachments.release(0);
  CHECK(door.read(0).empty() && door.read(0, AttachmentKind::kLogitBias).empty());
  CHECK_EQ(door.read(1, AttachmentKind::kLogitBias), "a");
  CHECK(attachments.hold(2, AttachmentKind::kStructure, std::string(kRoom / 2, 'z')));
}

// Each owner has what its slots use. Who may add no bytes can still use those that are there.
TEST(each_owner_s_room_is_counted) {
  Door door;
  Attachments attachments(door.segment, kDoor);
  const std::string half(kRoom / 2, 'x');
  CHECK(attachments.hold(0, AttachmentKind::kStructure, half, 3) &&
        attachments.hold(1, AttachmentKind::kScript, "a", 5));
  CHECK(attachments.hold(1, AttachmentKind::kStructure, half, 5, false) &&
        attachments.hold(2, AttachmentKind::kStructure, half, 5, false));
  CHECK(!attachments.hold(3, AttachmentKind::kStructure, "b", 5, false));
  CHECK(attachments.bytes_of(3) == kRoom / 2 && !attachments.bytes_of(4));
  CHECK_EQ(attachments.bytes_of(5), kRoom / 2 + kBlock);
  CHECK_EQ(attachments.free_bytes(), kRoom / 2 - kBlock);
  attachments.release(0);  // others still use it
  CHECK_EQ(attachments.bytes_of(3), 0u);
  attachments.release(2);
  CHECK_EQ(attachments.bytes_of(5), kRoom / 2 + kBlock);
  attachments.release(1);
  CHECK(!attachments.bytes_of(5));
  CHECK_EQ(attachments.free_bytes(), kRoom);
}

// What is given back in any order can all be had again, also in one piece.
TEST(no_room_is_lost) {
  Door door;
  Attachments attachments(door.segment, kDoor);
  for (u32 round = 0; round < 40; round++) {
    for (u32 i = 0; i < 4; i++)
      CHECK(attachments.hold(i, AttachmentKind::kLogitBias, std::string(kRoom / 4 - i, char('a' + i))));
    for (u32 i = 0; i < 4; i++) attachments.release((i + round) % 4);
    CHECK(attachments.hold(5, AttachmentKind::kLogitBias, std::string(3 * kBlock, 'x')));
    CHECK(attachments.hold(6, AttachmentKind::kLogitBias, std::string(kRoom / 2, 'y')));
    attachments.release(5), attachments.release(6);
    CHECK(attachments.hold(7, AttachmentKind::kLogitBias, std::string(kRoom, 'z')));
    CHECK(!attachments.hold(0, AttachmentKind::kLogitBias, "a"));
    attachments.release(7);
  }
}

TEST(a_door_that_starts_again_keeps_what_slots_hold) {
  Door door;
  const auto large = [](char c) { return std::string(6 * kBlock - 36, c); };
  {
    Attachments before(door.segment, kDoor);
    for (u32 i = 0; i < 3; i++) CHECK(before.hold(i, AttachmentKind::kStructure, large(char('a' + i / 2))));
    for (u32 i = 0; i < 2; i++) door.launch(i);
  }
  Attachments attachments(door.segment, kDoor);  // slot 2 was free: nobody reads what it held
  CHECK(door.read(2).empty());
  CHECK(attachments.hold(3, AttachmentKind::kStructure, large('c')));
  CHECK(!attachments.hold(4, AttachmentKind::kStructure, large('d')));
  CHECK_EQ(door.read(0), large('a'));
  CHECK_EQ(door.read(1), door.read(0));
  attachments.release(0);
  CHECK(!attachments.hold(4, AttachmentKind::kStructure, large('d')));
  attachments.release(1);
  CHECK(attachments.hold(4, AttachmentKind::kStructure, large('d')));
}

TEST(words_that_lead_nowhere_are_no_part) {
  Door door;
  Slot& slot = door.slot(0);
  for (const auto& [begin, bytes] : {std::pair(kRoom, 1u), {0u, kRoom + 1}, {~0u, ~0u}, {5u, 0u}, {5u, 9u}}) {
    slot.attached[u32(AttachmentKind::kStructure)] = {begin, bytes};
    door.launch(0);
    Attachments attachments(door.segment, kDoor);
    CHECK(door.read(0).empty());
    CHECK(attachments.hold(1, AttachmentKind::kStructure, std::string(kRoom, 'x')));  // all of the room
    attachments.release(1);
  }
}

TEST(what_a_segment_says_of_no_place_is_empty) {
  Door door;
  for (const auto& [begin, bytes] : {std::pair(kRoom, 1u), {0u, kRoom + 1}, {~0u, ~0u}, {5u, 0u}}) {
    door.slot(0).attached[u32(AttachmentKind::kLogitBias)] = {begin, bytes};
    CHECK(door.read(0, AttachmentKind::kLogitBias).empty());
  }
}

TEST(a_segment_without_room_has_none) {
  const Segment segment = made_segment({.doors = 1, .slots = 8, .max_tokens = 8, .answer_bytes = 64});
  Attachments attachments(segment, 0);
  CHECK(!attachments.hold(0, AttachmentKind::kStructure, "a"));
  attachments.release(0);
}
