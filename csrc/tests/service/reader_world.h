// For tests of RequestReaders: a door's routes, and messages whose every byte is damaged.
#pragma once
#include <optional>
#include <string>

#include "contract/utf8.h"
#include "contract/wire.h"
#include "core/segment.h"
#include "service/formats/protocol.h"
#include "service/tables/routes.h"
#include "tests/check.h"
#include "tests/made_segment.h"

namespace fastqps::test {

using namespace fastqps::test;

// One model, which ranks until a test says otherwise.
struct World {
  Segment segment;
  World() {
    segment = test::made_segment({.slots = 64, .max_tokens = 8, .answer_bytes = 64});
    segment.model(0).ready = 1;
    Route& route = segment.route(0);
    route.state = RouteState::kServing;
    route.task = Task::kClassify;
    route.activation = Activation::kIdentity;
    route.dimensions = 1;
    memory.emplace(segment, nullptr, 0);
    routes.emplace(*memory, DoorSettings{});
  }
  std::optional<DoorMemory> memory;
  std::optional<ModelRoutes> routes;
};

inline std::string delimited(u32 field, const std::string& bytes) {
  return std::string(1, char(length_tag(field))) + char(bytes.size()) + bytes;
}
inline std::string number(u32 field, u8 value) { return std::string(1, char(varint_tag(field))) + char(value); }

// Contents of a tensor as bytes.
inline std::string raw_text(std::string_view text) {
  const auto size = u32(text.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + std::string(text);
}
template <class Number>
std::string raw(std::initializer_list<Number> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(Number)};
}

// What a reader says of a body: the reason of an error behind its field, or nothing. The items lie in the body.
inline std::string error_of(RequestReader& reader, std::string_view body, const CallInfo& info = {}) {
  ReasonText reason;
  const FieldError error = reader.read({reinterpret_cast<const u8*>(body.data()), body.size()}, info, reason);
  return error ? std::string(error.field) + ": " + error.reason : "";
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
  const auto ids = view.generate.stop_ids.all();
  return {ids.begin(), ids.end()};
}

// A copy on the heap at its exact size: the sanitizers find a read past its end.
inline FieldError read(RequestReader& reader, const std::string& message, u32& items, const CallInfo& info = {}) {
  const std::vector<u8> copy(message.begin(), message.end());
  ReasonText reason;
  items = 0;
  if (const FieldError error = reader.read(copy, info, reason)) return error;
  for (u32 i = 0; i < reader.items(); i++) {
    RequestView view;
    if (reader.item(i, view)) continue;
    CHECK(view.input != Input::kNone);
    if (view.input == Input::kTokenIds) token_ids(view, std::vector<u32>(view.token_count).data());
    for (const std::string_view text :
         {view.text, view.pair_first, view.pair_second, view.prompt_name, view.tenant, view.group})
      CHECK(text::valid_utf8(text));
    items++;
  }
  return {};
}

inline void damage(RequestReader& reader, const std::string& message, const CallInfo& info = {}) {
  u32 items;
  for (size_t at = 0; at < message.size(); at++) {
    read(reader, message.substr(0, at), items, info);
    for (int value = 0; value < 256; value++) {
      std::string damaged = message;
      damaged[at] = char(value);
      read(reader, damaged, items, info);
    }
  }
  read(reader, message, items, info);  // nothing of the damaged ones is left
  CHECK(items > 0);
}

}  // namespace fastqps::test
