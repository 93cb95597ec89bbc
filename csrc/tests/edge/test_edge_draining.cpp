// Two processes behind one address, of which one is about to stop, as behind a balancer of connections.
#include "tests/edge/edge_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

UpstreamState state_of(const Edge& edge) { return edge.segment.upstream_table(0).row[0].state.load(); }

}  // namespace

TEST(an_address_serves_as_long_as_one_process_behind_it_does) {
  KeepingServer server;
  Edge edge({&server});
  server.calls[0].draining = true;
  edge.run([&] { return server.calls[0].told == 2; });  // it asks again when it has heard the first
  CHECK(state_of(edge) == UpstreamState::kServing);
  edge.put(40);
  edge.run([&] { return edge.held() == 40; });
  CHECK(server.calls[0].items.empty());

  server.end(server.calls[0]);
  edge.run([&] { return server.calls.size() == 3; });
  CHECK(state_of(edge) == UpstreamState::kServing);
  edge.put(40);
  edge.run([&] { return !server.calls[2].items.empty(); });
}

TEST(it_is_about_to_stop_when_all_of_them_are) {
  KeepingServer server;
  Edge edge({&server});
  for (Called& each : server.calls) each.draining = true;
  edge.run([&] { return state_of(edge) == UpstreamState::kDraining; });
  edge.put(20);  // there is no other one
  edge.run([&] { return edge.held() == 20; });
  for (Called& each : server.calls) server.answer(each, each.items.size(), StatusCode::kOk);
  edge.run([&] { return edge.ended.of[0] == 20; });
  server.calls[1].draining = false;  // it has changed its mind
  edge.run([&] { return state_of(edge) == UpstreamState::kServing; });
}
