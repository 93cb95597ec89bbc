// For tests of readers and writers of JSON: bodies as texts.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "service/formats/protocol.h"
#include "tests/service/reader_world.h"

namespace fastqps::test {

using namespace fastqps::test;

constexpr u32 kItemsMax = 4;

// A World whose model does this task.
struct TaskWorld : World {
  TaskWorld(Task task, u32 dimensions) {
    segment.route(0).task = task;
    segment.route(0).dimensions = dimensions;
  }
};

struct Wrong {
  std::string_view body, error;
};
inline void check_wrong(RequestReader& reader, std::span<const Wrong> cases) {
  for (const Wrong& each : cases) CHECK_EQ(error_of(reader, each.body), each.error);
}

inline std::string answered(const AnswerWriter& writer, const AnsweredCall& call, std::span<const ResponseView> items) {
  std::vector<u8> room(writer.room(call, items));
  const u8* end = writer.write(call, items, room.data());
  CHECK(size_t(end - room.data()) <= room.size());
  return {reinterpret_cast<const char*>(room.data()), size_t(end - room.data())};
}

}  // namespace fastqps::test
