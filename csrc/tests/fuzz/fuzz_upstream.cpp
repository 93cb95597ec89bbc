// Servers that say anything: a call ends once at most, and brings nothing afterwards.
#include "tests/fuzz/fuzz.h"
#include "tests/upstream/call_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

// Frames of an answer, some of them out of place.
std::string conversation(fuzz::Random& random) {
  std::string out = settings_frame();
  for (u64 frames = random.below(8); frames; frames--) switch (random.below(8)) {
      case 0:
        out += answer_headers();
        break;
      case 1:
        out += headers_frame(
            {{"grpc-status", random.one_in(2) ? "14" : random.bytes(4)}, {"grpc-message", random.bytes(40)}}, true);
        break;
      case 2:
        out += frame(NGHTTP2_GOAWAY, 0, 0, be32(u32(random.below(3))) + be32(u32(random.below(14))) + random.bytes(40));
        break;
      case 3:
        out += frame(NGHTTP2_RST_STREAM, 0, 1, be32(u32(random.below(14))));
        break;
      case 4:
        out += frame(NGHTTP2_WINDOW_UPDATE, 0, u32(random.below(2)), be32(u32(random.next())));
        break;
      default:
        out += data_frame(
            framed(random.bytes(3000), random.one_in(16)).substr(0, random.one_in(4) ? random.below(64) : 5000));
    }
  return random.one_in(2) ? out : fuzz::mutated(random, out);
}

void run(fuzz::Random& random) {
  const CallSettings settings{.path = "/a/b", .authority = "c", .message_bytes_max = 2000};
  Heard heard;
  Http2Call call(heard, settings);
  transport::OutputBuffer output;
  const auto fill = [&] {
    output.bytes = 0;
    call.fill(output);
  };
  call.start();
  fill();
  const std::string said = conversation(random);
  for (size_t at = 0; at < said.size() && !call.ended();) {
    const size_t n = std::min<size_t>(said.size() - at, 1 + random.below(random.one_in(2) ? 8 : 4000));
    call.receive({reinterpret_cast<const u8*>(said.data()) + at, n});
    at += n;
    if (u8* out = random.one_in(4) ? call.begin_message(100) : nullptr)
      std::memset(out, 1, 100), call.commit_message(100);
    fill();
  }
  const size_t messages = heard.messages;
  call.cut();
  CHECK(call.ended() && (call.ended()->how == End::kStatus || !call.ended()->text.empty()));
  CHECK(!call.begin_message(1));
  call.receive(std::span<const u8>(reinterpret_cast<const u8*>(said.data()), said.size()));
  CHECK_EQ(heard.messages, messages);
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run_all(argc, argv, run); }
