// What a front door asks of its loop as the server's phase changes; no loop runs.
#include <cstring>

#include "service/tables/routes.h"
#include "tests/made_segment.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

// Records each call as a line of text.
struct FakeLoop final : LoopControl {
  void set_serving(Serving serving) override { calls += "serving " + std::to_string(int(serving)) + "\n"; }
  void drain(u64 grace_ns) override { calls += "drain " + std::to_string(grace_ns) + "\n"; }
  void stop() override { calls += "stop\n"; }
  HeaderId add_header(std::string_view name, std::string_view value) override {
    calls.append("add ").append(name).append(": ").append(value).append("\n");
    return ++headers;
  }
  void change_header(HeaderId header, std::string_view value) override {
    calls.append("change ").append(std::to_string(header)).append(": ").append(value).append("\n");
  }
  std::string taken() { return std::exchange(calls, ""); }

  std::string calls;
  HeaderId headers = 0;
};

struct Door {
  OwnSegment own{{.slots = 64, .max_tokens = 8, .answer_bytes = 64}};
  DoorMemory memory{own.segment, &own.fds, 0};
  FakeLoop loop;
  Attachment attachment{.loop = &loop};
};

}  // namespace

TEST(each_phase_is_announced_once) {
  constexpr u64 kNow = 1000;
  struct Row {
    fastqps::Phase phase;
    u64 deadline_ns;
    const char* calls;
    bool draining;
  };
  Door door;
  PhaseWatch watch(door.memory, door.attachment);
  for (const Row& row : {Row{fastqps::Phase::kStarting, 0, "", false},
                         {fastqps::Phase::kServing, 0, "serving 1\n", false},
                         {fastqps::Phase::kServing, 0, "", false},
                         {fastqps::Phase::kLameDuck, 0, "serving 2\n", false},
                         {fastqps::Phase::kServing, 0, "serving 1\n", false},
                         {fastqps::Phase::kDraining, kNow + 500, "drain 500\n", true},
                         {fastqps::Phase::kStopping, 0, "stop\n", false},
                         {fastqps::Phase::kDraining, kNow - 1, "drain 0\n", true}}) {
    door.own.segment.supervisor().drain_deadline_ns = row.deadline_ns;
    door.own.segment.supervisor().phase = row.phase;
    watch.watch(kNow);
    CHECK_EQ(door.loop.taken(), row.calls);
    CHECK_EQ(watch.draining(), row.draining);
  }
}

TEST(a_drain_is_late_after_half_of_its_time) {
  Door door;
  PhaseWatch watch(door.memory, door.attachment);
  door.own.segment.supervisor().drain_deadline_ns = 300;
  door.own.segment.supervisor().phase = fastqps::Phase::kDraining;
  watch.watch(100);
  CHECK(!watch.drain_is_late(199) && watch.drain_is_late(200));
  CHECK(!watch.drain_is_over(299) && watch.drain_is_over(300));
}

TEST(a_model_is_found_by_all_its_names) {
  Door door;
  const ModelRoutes named(door.memory, DoorSettings{.aliases = {{"b", 0}}});
  const ModelRoutes any(door.memory, DoorSettings{.any_model_name = true});
  std::strcpy(door.own.segment.model(0).name, "a");
  for (const char* name : {"", "a", "b"}) CHECK_EQ(named.number(name), 0);
  for (const char* name : {"c", "aa", "A"}) {
    CHECK_EQ(named.find(name), i32(ModelRoutes::kUnknown));
    CHECK_EQ(any.number(name), 0);
  }
  CHECK_EQ(any.find("c"), i32(ModelRoutes::kStarting));
  CHECK_EQ(named.names(), std::string("'a', 'b'"));
}

TEST(a_route_has_one_header_whose_value_changes) {
  Door door;
  ModelRoutes routes(door.memory, DoorSettings{});
  for (const auto& [version, calls] : {std::pair{"m@1", "add fastqps-model: m@1\n"}, {"m@2", "change 1: m@2\n"}}) {
    RouteSetup setup;
    setup.version = version;
    routes.setups().offer(0, std::move(setup));
    routes.take_setups(&door.loop);
    CHECK_EQ(door.loop.taken(), calls);
    CHECK_EQ(u32(routes.header(0)), 1u);
  }
}
