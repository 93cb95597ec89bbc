// Connections that say anything, to a door whose service keeps a ledger: every call that it was told about ends once,
// and nothing is left of any of them.
#include <memory>

#include "tests/fuzz/fuzz_frames.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

const std::vector<std::string> kPaths = {
    "/test.Service/Echo",           "/test.Service/Later",
    "/test.Service/Stream",         "/test.Service/Chunks",
    "/test.Service/Rare",           "/test.Service/Nothing",
    "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
    "/grpc.health.v1.Health/List",  "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"};
// The third and fourth are a health check's and a load report's.
const std::vector<std::string> kMessages = {"",
                                            "hello",
                                            std::string("\x0a\x03xyz"),
                                            std::string("\x0a\x02\x08\x01"),
                                            std::string(300, 'x'),
                                            std::string(3000, 'y')};
constexpr u64 kInputsOfDoor = 2000;

void check_clean(Fixture& fixture) {
  const auto end = std::chrono::steady_clock::now() + fastqps::test::kPatience;
  while (fixture.door.net.connections.open() || fixture.counters.reassembly_bytes) {
    CHECK(std::chrono::steady_clock::now() < end);
    fixture.door.turn();
  }
  fixture.check_clean();
}

void run(fuzz::Random& random) {
  static std::unique_ptr<Fixture> fixture;
  static u64 inputs = 0;
  if (!fixture) fixture = std::make_unique<Fixture>();
  say(random, fixture->door, fuzz::Conversation(random, kPaths, kMessages).bytes(), [&] {
    while (auto call = fixture->door.grpc.rare.queue().pop(0))
      fixture->door.grpc.rare.queue().answer({call->call, random.bytes(100), random.one_in(2), StatusCode::kOk, ""});
    if (random.one_in(2)) {
      for (const CallId call : fixture->service.waiting) fixture->service.finish(call);
      fixture->service.waiting.clear();
    }
  });
  if (++inputs % kInputsOfDoor) return;
  check_clean(*fixture);
  fixture.reset();
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run_all(argc, argv, run); }
