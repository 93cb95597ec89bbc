// A call to a front door: messages both ways in any pieces, how it ends, and what the listener may do meanwhile.
#include "tests/upstream/relay.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr const char* kStream = "/test.Service/Stream";

// Says some messages, hears them again, and ends.
void converse(
    Door& door, UpstreamCaller& caller, const std::function<void()>& between = [] {}) {
  const std::string texts[] = {"first", "", std::string(3000, 'x'), std::string(40'000, 'y'), "last"};
  for (const std::string& text : texts) CHECK(caller.say(text));
  caller.call->half_close();
  until([&] { return caller.heard.end.has_value(); }, [&] { caller.turn(), between(), door.turn(), between(); });
  CHECK_EQ(caller.heard.opens, 1);
  CHECK(caller.heard.end->how == End::kStatus && caller.heard.end->status == 0);
  CHECK_EQ(caller.heard.messages, std::size(texts));
  for (size_t i = 0; i < std::size(texts); i++) CHECK(caller.heard.texts[i] == texts[i]);
}

}  // namespace

TEST(messages_both_ways_and_the_end) {
  Door door;
  UpstreamCaller caller(door.listening.address, settings_for(kStream));
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
  CHECK_EQ(caller.call->interest(), 0u);
}

TEST(byte_by_byte) {
  Door door;
  for (const size_t step : {size_t(1), size_t(7), size_t(4096)}) {
    Relay relay(door.listening.address);
    relay.step = step;
    UpstreamCaller caller(relay.listening.address, settings_for(kStream));
    converse(door, caller, [&] {
      for (int i = 0; i < 64; i++) relay.turn();
    });
    relay.cut();
  }
}

// Wherever the connection breaks, the call ends once and says that it broke.
TEST(cut_at_every_byte) {
  Door door;
  size_t whole = 0;
  {
    Relay relay(door.listening.address);
    UpstreamCaller caller(relay.listening.address, settings_for(kStream));
    converse(door, caller, [&] { relay.turn(); });
    whole = caller.call->bytes_in();
  }
  int finished = 0;
  for (size_t left = 1; left < whole; left += left < 200 ? 1 : 613) {
    Relay relay(door.listening.address);
    relay.left = left;
    UpstreamCaller caller(relay.listening.address, settings_for(kStream));
    for (const size_t bytes : {5, 0, 3000, 40'000, 4}) CHECK(caller.say(std::string(bytes, 'z')));
    caller.call->half_close();
    until([&] { return caller.heard.end.has_value(); }, [&] { caller.turn(), relay.turn(), door.turn(); });
    const CallEnd& end = *caller.heard.end;
    finished += end.how == End::kStatus;  // only what follows the trailers was cut off
    if (end.how == End::kStatus) continue;
    CHECK(end.how == End::kClosed || (end.how == End::kProtocol && !caller.heard.opens));
    CHECK(end.text.starts_with("the server") || end.text.starts_with("the connection broke"));
  }
  CHECK(finished < 4);
}

TEST(a_refused_call_has_the_servers_words) {
  Door door;
  door.door.calls.tokens = tokens_of({"the-right-token-of-it"});
  for (const char* token : {"", "a-wrong-token", "the-right-token-of-it"}) {
    CallSettings settings = settings_for(kStream);
    settings.token = token;
    UpstreamCaller caller(door.listening.address, settings);
    CHECK(caller.say("x"));
    if (std::string(token).starts_with("the-right")) {
      door.run(caller, [&] { return caller.heard.messages == 1; });
      door.service.finish({.index = door.service.open.begin()->first, .generation = door.service.open.begin()->second},
                          {.code = StatusCode::kFailedPrecondition, .message = "100 %: größer\n"});
      const CallEnd end = door.end_of(caller);
      CHECK(end.how == End::kStatus);
      CHECK_EQ(end.status, u32(StatusCode::kFailedPrecondition));
      CHECK_EQ(end.text, std::string("100 %: größer\n"));
    } else {
      const CallEnd end = door.end_of(caller);
      CHECK(end.how == End::kStatus);
      CHECK_EQ(end.status, u32(StatusCode::kUnauthenticated));
      CHECK(end.text.find("authorization") != end.text.npos);
    }
  }
  UpstreamCaller caller(door.listening.address,
                        {.path = "/test.Service/Nothing", .authority = "x", .token = "the-right-token-of-it"});
  CHECK_EQ(door.end_of(caller).status, u32(StatusCode::kUnimplemented));
}

// Windows of the server's, a socket that takes little, and more messages than fit: all arrive, in order.
TEST(many_messages_through_narrow_windows) {
  Door door({.stream_window = 65'535, .connection_window = 65'535});
  UpstreamCaller caller(door.listening.address, settings_for(kStream));
  size_t said = 0, bytes = 0;
  std::mt19937 random(7);
  until([&] { return caller.heard.messages == 3000; },
        [&] {
          for (int i = 0; i < 40 && said < 3000; i++) {
            const std::string text(random() % (said % 100 ? 2000 : 60'000), char('a' + said % 26));
            if (!caller.say(text)) break;
            said++, bytes += text.size();
          }
          caller.turn(), door.turn();
        });
  CHECK_EQ(caller.heard.message_bytes, bytes);
  for (size_t i = 0; i < 3000; i++)
    CHECK_EQ(caller.heard.texts[i].find_first_not_of(char('a' + i % 26)), std::string::npos);
  CHECK_EQ(caller.call->unsent(), size_t(0));
}

TEST(the_listener_may_use_the_call) {
  Door door;
  {
    UpstreamCaller caller(door.listening.address, settings_for(kStream));
    caller.heard.on_opened = [&] {
      CHECK(caller.say("0"));
      CHECK(!caller.call->flush(now_ns()));
    };
    caller.heard.on_message = [&] {
      if (caller.heard.messages < 50) CHECK(caller.say("again"));
      if (caller.heard.messages == 50) caller.call->half_close();
    };
    caller.heard.on_ended = [&] { caller.call.reset(); };
    door.run(caller, [&] { return !caller.call; });
    CHECK_EQ(caller.heard.messages, size_t(50));
    CHECK(caller.heard.end->how == End::kStatus);
  }
  {  // it closes in the middle of several messages
    UpstreamCaller caller(door.listening.address, settings_for(kStream));
    for (int i = 0; i < 10; i++) CHECK(caller.say("x"));
    caller.heard.on_message = [&] { caller.call->close(); };
    door.run(caller, [&] { return caller.heard.messages == 1; });
    for (int i = 0; i < 10; i++) caller.turn(), door.turn();
    CHECK_EQ(caller.heard.messages, size_t(1));
    CHECK(!caller.heard.end && caller.call->fd() < 0 && caller.call->due_ns() == kNever);
  }
}

TEST(addresses) {
  CHECK_EQ(Address::of("10.0.0.1", 50051)->name, std::string("10.0.0.1:50051"));
  CHECK_EQ(Address::of("fe80::1", 443)->name, std::string("[fe80::1]:443"));
  CHECK_EQ(Address::of("::1", 1)->where.ss_family, sa_family_t(AF_INET6));
  for (const char* text : {"", "localhost", "10.0.0", "10.0.0.1:1", "[::1]"}) CHECK(!Address::of(text, 1));
}
