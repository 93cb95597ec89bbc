#include <random>

#include "contract/status.h"
#include "tests/check.h"
#include "tests/frames.h"
#include "transport/framing/grpc_message.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

struct Collector {
  u32 limit = 1 << 20;
  u32 grow_failures_from = ~u32(0);
  std::vector<std::string> messages;
  int in_place = 0, prefixes = 0, live = 0;

  bool prefix(u8 flag, u32 bytes) {
    prefixes++;
    return flag <= 1 && bytes <= limit;
  }
  u8* grow(u8* body, u32 before, u32 room) {
    CHECK((body == nullptr) == (before == 0));
    if (room >= grow_failures_from) return std::free(body), live -= body != nullptr, nullptr;
    live += body == nullptr;
    return static_cast<u8*>(std::realloc(body, room));
  }
  void message(u8 flag, const u8* data, u8* body, u32 bytes) {
    CHECK((data == nullptr) != (body == nullptr));
    in_place += data != nullptr;
    messages.push_back(char('0' + flag) + std::string(reinterpret_cast<const char*>(data ? data : body), bytes));
    std::free(body);
    live -= body != nullptr;
  }
};

bool feed(MessageReader& reader, Collector& sink, std::string_view bytes) {
  // An own copy, so that a sanitizer sees each read beyond it.
  const std::vector<u8> chunk(bytes.begin(), bytes.end());
  return reader.feed(chunk.data(), chunk.size(), sink);
}

}  // namespace

TEST(whole_messages_are_handed_over_in_place) {
  MessageReader reader;
  Collector sink;
  CHECK(feed(reader, sink, framed("abc") + framed("") + framed("de", 1)));
  CHECK(reader.between_messages());
  CHECK_EQ(sink.in_place, 3);
  CHECK(sink.messages == (std::vector<std::string>{"0abc", "0", "1de"}));
}

TEST(every_split_in_two_and_in_three) {
  const std::string bytes = framed("hello") + framed("") + framed("x") + framed(std::string(20, 'y'), 1);
  const std::vector<std::string> want = {"0hello", "0", "0x", "1" + std::string(20, 'y')};
  for (size_t i = 0; i <= bytes.size(); i++) {
    for (size_t j = i; j <= bytes.size(); j++) {
      MessageReader reader;
      Collector sink;
      CHECK(feed(reader, sink, bytes.substr(0, i)));
      CHECK(feed(reader, sink, bytes.substr(i, j - i)));
      CHECK(feed(reader, sink, bytes.substr(j)));
      CHECK(reader.between_messages());
      CHECK(sink.messages == want);
      CHECK_EQ(sink.prefixes, 4);
      CHECK_EQ(sink.live, 0);
    }
  }
}

TEST(random_splits) {
  for (u32 seed = 0; seed < 200; seed++) {
    std::mt19937 random(seed);
    std::string bytes;
    std::vector<std::string> want;
    for (int i = 0; i < 20; i++) {
      std::string message(random() % (random() % 3 ? 50 : 9000), char(random()));
      bytes += framed(message);
      want.push_back("0" + message);
    }
    MessageReader reader;
    Collector sink;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = std::min<size_t>(bytes.size() - at, random() % (random() % 2 ? 8 : 16384));
      CHECK(feed(reader, sink, std::string_view(bytes).substr(at, n)));
      at += n;
    }
    CHECK(sink.messages == want);
    CHECK_EQ(sink.live, 0);
  }
}

TEST(an_announced_length_costs_nothing_before_its_bytes_come) {
  MessageReader reader;
  Collector sink;
  CHECK(feed(reader, sink, framed(std::string(1 << 20, 'a')).substr(0, 105)));
  CHECK(reader.room() <= 2048);
  std::free(reader.take_body());
}

TEST(what_the_sink_refuses_stops_the_reader) {
  for (const std::string& bytes : {framed("x", 2), framed(std::string(101, 'x'))}) {
    MessageReader reader;
    Collector sink;
    sink.limit = 100;
    CHECK(!feed(reader, sink, bytes));
    CHECK(sink.messages.empty());
  }
  MessageReader reader;
  Collector sink;
  sink.grow_failures_from = 4000;
  const std::string bytes = framed(std::string(9000, 'x'));
  CHECK(feed(reader, sink, bytes.substr(0, 100)));
  CHECK(!feed(reader, sink, bytes.substr(100, 4000)));
  CHECK_EQ(sink.live, 0);
  CHECK(reader.take_body() == nullptr);
}

TEST(status_text_is_cleaned_cut_and_encoded) {
  const auto encoded = [](std::string_view text) {
    return std::string(EncodedStatus({.code = StatusCode::kInternal, .message = text}, -1).message());
  };
  CHECK_EQ(encoded("plain ~text"), std::string("plain ~text"));
  CHECK_EQ(encoded("50%\n\x7f"), std::string("50%25%0A%7F"));
  CHECK_EQ(encoded("\xc3\xa9"), std::string("%C3%A9"));
  for (const char* bad :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xf4\x90\x80\x80", "\xe0\x9f\xbf"})
    CHECK(encoded(bad).starts_with("%EF%BF%BD"));
  CHECK_EQ(encoded(std::string(5000, 'a')).size(), size_t(1024));
  const std::string smileys = encoded([] {
    std::string text;
    for (int i = 0; i < 500; i++) text += "\xf0\x9f\x98\x80";
    return text;
  }());
  CHECK_EQ(smileys.size() % 12, size_t(0));  // whole code points
  CHECK(smileys.size() <= 1024);
  CHECK_EQ(EncodedStatus({}, -1).code(), std::string_view("0"));
  CHECK_EQ(EncodedStatus({.code = StatusCode::kUnauthenticated}, -1).code(), std::string_view("16"));
}

TEST(base64) {
  const auto encode = [](std::string_view bytes) {
    char out[64];
    return std::string(out, base64_encode(bytes, out));
  };
  CHECK_EQ(encode(""), std::string());
  CHECK_EQ(encode("f"), std::string("Zg"));
  CHECK_EQ(encode("fo"), std::string("Zm8"));
  CHECK_EQ(encode("foo"), std::string("Zm9v"));
  CHECK_EQ(encode("\xfb\xff\xbf"), std::string("+/+/"));
}

TEST(details_stay_within_their_bounds) {
  const std::string long_text(4000, '%');
  const EncodedStatus status({.code = StatusCode::kInvalidArgument, .message = long_text, .field = long_text}, 123456);
  CHECK_EQ(status.pushback(), std::string_view("123456"));
  CHECK(status.details().size() > 400 && status.details().size() <= 1024);
  CHECK_EQ(status.message().size(), size_t(3 * 192));
  CHECK(EncodedStatus({.code = StatusCode::kNotFound, .message = "x"}, -1).details().empty());
}
