// A call to a front door: messages both ways, how it ends, and what it does while nobody listens.
#include "tests/upstream/call_fixture.h"

using namespace fastqps;
using namespace fastqps::upstream;

namespace {

constexpr const char* kStream = "/test.Service/Stream";

}  // namespace

TEST(messages_both_ways_and_the_end) {
  Door door;
  {
    Caller caller(door.listening.address, settings_for(kStream));
    const std::string long_text(300'000, 'x');
    CHECK(caller.say("queued before it is open"));
    CHECK(caller.say(""));
    CHECK(caller.say(long_text));
    door.run(caller, [&] { return caller.heard.messages == 3; });
    CHECK(caller.call->open() && caller.heard.opens == 1);
    CHECK_EQ(caller.call->unsent(), size_t(0));
    CHECK_EQ(caller.heard.texts[0], std::string("queued before it is open"));
    CHECK_EQ(caller.heard.texts[1], std::string());
    CHECK(caller.heard.texts[2] == long_text);
    CHECK(caller.call->bytes_out() > long_text.size() && caller.call->bytes_in() > long_text.size());
    CHECK_EQ(caller.call->due_ns(), kNever);
    CHECK_EQ(caller.call->interest(), u32(EPOLLIN));
    caller.call->half_close();
    const CallEnd end = door.end_of(caller);
    CHECK(end.how == End::kStatus);
    CHECK_EQ(end.status, 0u);
    CHECK_EQ(door.service.half_closes, 1);
    CHECK(!caller.say("too late") && !caller.call->open());
  }
  door.check_clean();
}

TEST_MAIN
