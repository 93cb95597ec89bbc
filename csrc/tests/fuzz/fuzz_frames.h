// What a client may say on a connection: frames, calls and messages, right and wrong.
#pragma once
#include <string>
#include <vector>

#include "tests/frames.h"
#include "tests/fuzz/fuzz.h"
#include "tests/transport/compressed.h"
#include "tests/transport/transport_fixture.h"
#include "transport/framing/grpc_message.h"

namespace fastqps::fuzz {

enum FrameType : u8 { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoaway, kWindow, kContinuation };

using namespace test;

class Conversation {
 public:
  Conversation(Random& random, const std::vector<std::string>& paths, const std::vector<std::string>& messages)
      : random_(random), paths_(paths), messages_(messages) {}

  std::string bytes() {
    std::string out = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    out += frame(kSettings, 0, 0, "");
    for (u64 parts = 1 + random_.below(8); parts; parts--) out += part();
    if (odd(8)) out = mutated(random_, std::move(out));
    return out;
  }

 private:
  // Half of all conversations are right in everything, so that what follows in them is met.
  bool odd(u64 n) { return wrong_ && random_.one_in(n); }

  std::string part() {
    switch (wrong_ ? random_.below(16) : random_.one_in(4) ? 2 : 6) {
      case 0:
        return frame(kReset, 0, any_stream(), be32(u32(random_.below(16))));
      case 1:
        return frame(kWindow, 0, random_.one_in(2) ? 0 : any_stream(), be32(u32(random_.next() >> 33)));
      case 2:
        return frame(kPing, u8(random_.below(2)), 0, std::string(8, 'p'));
      case 3:
        return frame(kSettings, 0, 0, std::string{0, char(1 + random_.below(6))} + be32(u32(random_.next())));
      case 4:
        return frame(u8(random_.below(14)), u8(random_.next()), u32(random_.below(9)), random_.bytes(300));
      case 5:
        return frame(kData, u8(random_.below(2)), any_stream(), body());
      default:
        return call();
    }
  }
  u32 any_stream() { return 1 + 2 * u32(random_.below(stream_ / 2 + 2)); }

  std::string call() {
    stream_ += 2;
    gzip_ = random_.one_in(2);
    Fields fields = {{":method", "POST"},
                     {":scheme", "http"},
                     {":path", random_.of(paths_)},
                     {":authority", "test"},
                     {"content-type", "application/grpc"},
                     {"te", "trailers"}};
    compressed_ = random_.one_in(2);
    if (compressed_) fields.push_back({"grpc-encoding", gzip_ ? "gzip" : "deflate"});
    if (random_.one_in(4)) fields.push_back({"grpc-timeout", std::to_string(random_.below(2000)) + random_.of(kUnits)});
    if (random_.one_in(8)) fields.push_back({"traceparent", "00-" + std::string(32, 'a') + "-00f067aa0ba902b7-01"});
    if (odd(8)) fields.push_back({random_.of(kNames), random_.bytes(60)});
    if (odd(16)) std::swap(fields[random_.below(fields.size())], fields[random_.below(fields.size())]);
    std::string block = header_block(fields);
    if (odd(8)) block = mutated(random_, std::move(block));
    std::string out;
    const bool ended = odd(16);
    if (random_.one_in(8)) {
      const size_t cut = random_.below(block.size() + 1);
      out = frame(kHeaders, u8(ended), stream_, block.substr(0, cut));
      out += frame(kContinuation, 4, stream_, block.substr(cut));
    } else {
      out = frame(kHeaders, u8(4 | ended), stream_, block);
    }
    if (ended) return out;
    for (u64 frames = odd(4) ? random_.below(3) : 0; frames; frames--) out += frame(kData, 0, stream_, body());
    return out + frame(kData, u8(!odd(4)), stream_, body());
  }
  // Some messages of gRPC, of which one may be cut.
  std::string body() {
    std::string out;
    for (u64 count = random_.one_in(4) ? random_.below(4) : 1; count; count--) {
      std::string message = random_.one_in(8) ? random_.bytes(500) : random_.of(messages_);
      if (random_.one_in(4)) message = mutated(random_, std::move(message));
      if (random_.one_in(200)) message.resize(70'000 + random_.below(200'000));
      u8 flag = compressed_ && !random_.one_in(4);
      if (flag && !odd(8)) message = compressed(message, gzip_, 6);
      if (flag && odd(4)) message = mutated(random_, std::move(message));
      if (odd(32)) flag = u8(random_.next());
      out += framed(message, flag);
    }
    if (odd(8)) out = mutated(random_, std::move(out));
    return out.substr(0, 16384);  // of a frame
  }

  inline static const std::vector<std::string> kUnits = {"n", "u", "m", "S", "M", "H", "x"};
  inline static const std::vector<std::string> kNames = {
      "x-any", "authorization", "tracestate", ":path", "te", "content-length", "connection", "grpc-encoding", ""};
  Random& random_;
  const bool wrong_ = random_.one_in(2);
  const std::vector<std::string>& paths_;
  const std::vector<std::string>& messages_;
  u32 stream_ = u32(-1);
  bool compressed_ = false, gzip_ = false;
};

// Says it on a new connection, in some pieces, and goes: politely, half-closed first, or at once.
inline void say(Random& random, transport::FrontDoor& door, std::string_view bytes,
                const std::function<void()>& between) {
  const int fd = connected_to(door);
  for (u64 pieces = 1 + random.below(3); pieces; pieces--) {
    const size_t some = pieces == 1 ? bytes.size() : random.below(bytes.size() + 1);
    if (some) (void)!send(fd, bytes.data(), some, MSG_NOSIGNAL);
    bytes.remove_prefix(some);
    door.turn();
  }
  between();
  if (random.one_in(4)) shutdown(fd, SHUT_WR);
  for (u64 turns = random.below(4); turns; turns--) {
    char buffer[4096];
    door.turn();
    (void)!recv(fd, buffer, sizeof buffer, 0);
  }
  close(fd);
  door.turn();
}

}  // namespace fastqps::fuzz
