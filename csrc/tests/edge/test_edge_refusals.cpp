// Refusals for load: which connection gets less, for how long, and where the items go.
#include <algorithm>
#include <vector>

#include "tests/edge/edge_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u32 kFull = u32(StatusCode::kResourceExhausted);
constexpr u32 kBudget = 32;  // items that an edge sends again before any is answered

}  // namespace

// A burst costs the connection that it came by a quarter of its window, once, and the other one nothing. Its items go
// to the other one, which the server may have room for. The connection has nothing left, so it is left alone for the
// time that the server asks for.
TEST(a_refusal_is_of_one_connection) {
  constexpr u32 kPauseMs = 80;
  KeepingServer server;
  Edge edge({&server});
  edge.put(2 * 16);  // a handful for each
  edge.run([&] { return edge.held() == 32; });
  Called &one = server.calls[0], &other = server.calls[1];
  CHECK_EQ(one.items.size(), 16u);
  CHECK_EQ(other.items.size(), 16u);

  const u64 refused_ns = now_ns();
  std::vector<u32> refused = one.items;
  server.answer(one, 16, StatusCode::kResourceExhausted, kPauseMs);
  edge.run([&] { return other.items.size() == 32; });
  CHECK(one.items.empty());
  std::vector<u32> again(other.items.end() - 16, other.items.end());
  std::sort(refused.begin(), refused.end()), std::sort(again.begin(), again.end());
  CHECK(again == refused);

  edge.put(200);
  edge.run([&] {
    CHECK(one.items.empty() || now_ns() - refused_ns >= kPauseMs * transport::kMillisecond);
    return one.items.size() == 48 && other.items.size() == Window::kFirst;
  });
  for (u32 i = 0; i < 100; i++) edge.turn();
  CHECK_EQ(edge.held(), 48 + Window::kFirst);
  CHECK_EQ(edge.ended.of[kFull], 0u);

  // While it has other items there is no pause, and it keeps as many as the server has kept. The budget has half left.
  server.answer(one, 20, StatusCode::kResourceExhausted, kPauseMs);
  edge.run([&] { return edge.ended.of[kFull] == 20 - kBudget / 2; });
  for (u32 i = 0; i < 100; i++) edge.turn();
  CHECK_EQ(one.items.size(), 28u);
  CHECK_EQ(other.items.size(), size_t(Window::kFirst));
  server.answer(one, 1, StatusCode::kOk);
  edge.run([&] { return one.items.size() == 28 && edge.ended.of[0] == 1; });
}

// What one server refuses goes to another one, as far as the budget goes; for the rest the client hears of it. Each
// answer adds a tenth of an item to the budget.
TEST(a_refused_item_goes_to_another_server) {
  KeepingServer first, second;
  Edge edge({&first, &second});
  const auto answer = [](KeepingServer& server, StatusCode status) {
    for (Called& each : server.calls) server.answer(each, each.items.size(), status);
  };
  edge.put(128);
  edge.run([&] { return first.items() == 64 && second.items() == 64; });
  answer(first, StatusCode::kResourceExhausted);
  edge.run([&] { return edge.ended.of[kFull] == 64 - kBudget && second.items() == 64 + kBudget; });
  CHECK_EQ(first.items(), 0u);

  answer(second, StatusCode::kOk);
  edge.run([&] { return edge.ended.of[0] == 64 + kBudget; });
  constexpr u32 kEarned = (64 + kBudget) / 10;
  edge.put(64);
  edge.run([&] { return first.items() == 32 && second.items() == 32; });
  answer(second, StatusCode::kResourceExhausted);
  edge.run([&] { return edge.ended.of[kFull] == 64 - kBudget + 32 - kEarned && first.items() == 32 + kEarned; });
  CHECK_EQ(second.items(), 0u);
}
