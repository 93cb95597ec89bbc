// For tests of readers and writers of JSON: bodies as texts.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "predict/formats/answer_writer.h"
#include "tests/predict/reader_world.h"

namespace fastqps::test {

using namespace fastqps::front;

constexpr u32 kItemsMax = 4;

// What a reader says of a body: the reason of an error behind its field, or nothing.
inline std::string error_of(RequestReader& reader, std::string_view body) {
  ReasonText reason;
  const CallInfo info{};
  const FieldError error = reader.read({reinterpret_cast<const u8*>(body.data()), body.size()}, info, reason);
  return error ? std::string(error.field) + ": " + error.reason : "";
}

struct Wrong {
  std::string_view body, error;
};
inline void check_wrong(RequestReader& reader, std::span<const Wrong> cases) {
  for (const Wrong& each : cases) CHECK_EQ(error_of(reader, each.body), each.error);
}

inline RequestView item_of(RequestReader& reader, u32 index = 0) {
  RequestView view;
  CHECK(!reader.item(index, view));
  return view;
}

inline std::vector<u32> ids_of(const RequestView& view) {
  std::vector<u32> ids(view.token_count);
  token_ids(view, ids.data());
  return ids;
}

inline std::vector<u32> stop_ids_of(const RequestView& view) {
  std::vector<u32> ids(view.generate.stop_token_count);
  stop_tokens(view, ids.data());
  return ids;
}

inline std::string answered(const AnswerWriter& writer, const AnsweredCall& call, std::span<const ResponseView> items) {
  std::vector<u8> room(writer.room(call, items));
  const u8* end = writer.write(call, items, room.data());
  CHECK(size_t(end - room.data()) <= room.size());
  return {reinterpret_cast<const char*>(room.data()), size_t(end - room.data())};
}

}  // namespace fastqps::test
