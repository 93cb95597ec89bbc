// Structures of requests: each once, what a front door that starts again finds held, and words that lead nowhere.
#include <string>

#include "core/structures.h"
#include "tests/check.h"
#include "tests/made_segment.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u32 kDoor = 1;
constexpr u64 kRoom = 4 << 10;

struct Door {
  Segment segment =
      made_segment({.doors = 2, .slots = 8, .max_tokens = 8, .answer_bytes = 64, .structure_bytes = kRoom});

  Slot& slot(u32 i) const { return segment.slot(kDoor, i); }
  std::string_view read(u32 i) const { return segment.structure(kDoor, slot(i)); }
};

std::string as_read(Structure kind, const std::string& text) { return char(kind) + text; }

}  // namespace

TEST(equal_ones_lie_there_once_until_the_last_slot_is_free) {
  Door door;
  Structures structures(door.segment, kDoor);
  const std::string large(kRoom - (2 << 10), 'x');
  CHECK(structures.hold(0, Structure::kRegex, large) && structures.hold(1, Structure::kRegex, large));
  CHECK(structures.hold(2, Structure::kGrammar, "a"));  // another kind is another structure
  CHECK_EQ(door.read(0), as_read(Structure::kRegex, large));
  CHECK(door.read(0).data() == door.read(1).data());
  CHECK_EQ(door.read(2), as_read(Structure::kGrammar, "a"));
  CHECK(!structures.hold(3, Structure::kJsonSchema, large));
  structures.release(0);
  CHECK(!structures.hold(3, Structure::kJsonSchema, large));
  CHECK_EQ(door.read(1), as_read(Structure::kRegex, large));
  structures.release(1);
  structures.release(1);  // it holds none any more
  CHECK(structures.hold(3, Structure::kJsonSchema, large));
  CHECK_EQ(door.read(3), as_read(Structure::kJsonSchema, large));
  CHECK_EQ(door.read(2), as_read(Structure::kGrammar, "a"));
}

TEST(a_door_that_starts_again_keeps_what_slots_hold) {
  Door door;
  {
    Structures before(door.segment, kDoor);
    for (u32 i = 0; i < 3; i++) CHECK(before.hold(i, Structure::kRegex, std::string(1500, char('a' + i / 2))));
    for (u32 i = 0; i < 2; i++) door.slot(i).state.store(Word::make(State::kLaunched, 1, 0, 1).bits, kRelease);
  }
  Structures structures(door.segment, kDoor);  // slot 2 was free: nobody reads what it held
  CHECK(structures.hold(3, Structure::kRegex, std::string(1500, 'c')));
  CHECK(!structures.hold(4, Structure::kRegex, std::string(1500, 'd')));
  CHECK_EQ(door.read(0), as_read(Structure::kRegex, std::string(1500, 'a')));
  CHECK_EQ(door.read(1), door.read(0));
  structures.release(0);
  CHECK(!structures.hold(4, Structure::kRegex, std::string(1500, 'd')));
  structures.release(1);
  CHECK(structures.hold(4, Structure::kRegex, std::string(1500, 'd')));
}

TEST(words_that_lead_nowhere_are_no_structure) {
  Door door;
  Slot& slot = door.slot(0);
  const std::pair<u32, u32> wrong[] = {{kRoom, 1}, {0, kRoom + 1}, {~0u, ~0u}, {5, 0}};
  for (const auto& [begin, bytes] : wrong) {
    slot.structure_begin = begin, slot.structure_bytes = bytes;
    slot.state.store(Word::make(State::kLaunched, 1, 0, 1).bits, kRelease);
    CHECK(door.read(0).empty());
    Structures structures(door.segment, kDoor);
    CHECK(structures.hold(1, Structure::kRegex, std::string(kRoom - 1, 'x')));  // all of the room
    structures.release(1);
  }
}

TEST(a_segment_without_room_has_none) {
  const Segment segment = made_segment({.doors = 1, .slots = 8, .max_tokens = 8, .answer_bytes = 64});
  Structures structures(segment, 0);
  CHECK(!structures.hold(0, Structure::kJsonObject, ""));
  structures.release(0);
}
