// Takes the bytes of a server's answer apart: whole messages go to the listener where they lie, and those in pieces are
// put together in a buffer that is used again.
#pragma once
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "grpc/grpc_message.h"
#include "upstream/call_end.h"
#include "upstream/call_listener.h"

namespace fastqps::upstream {

class MessageSink {
 public:
  // end: where the call's end is noted. After it nothing is passed on.
  MessageSink(CallListener& listener, u32 bytes_max, std::optional<CallEnd>& end)
      : listener_(listener), bytes_max_(bytes_max), end_(end) {}

  // Returns false if the call has ended meanwhile.
  bool feed(std::span<const u8> bytes) { return reader_.feed(bytes.data(), bytes.size(), *this) && !end_; }

  // ---- for the reader
  bool prefix(u8 flag, u32 bytes) {
    if (end_) return false;
    if (flag == 0 && bytes <= bytes_max_) return true;
    end_ = {End::kProtocol, 0, flag ? compressed_words() : too_long_words(bytes)};
    return false;
  }
  u8* grow(u8*, u32 before, u32 room) {
    if (room <= room_) return body_.get();
    auto grown = std::make_unique_for_overwrite<u8[]>(room);
    if (before) std::memcpy(grown.get(), body_.get(), before);
    body_ = std::move(grown), room_ = room;
    return body_.get();
  }
  void message(u8, const u8* in_place, const u8* body, u32 bytes) {
    if (end_) return;
    listener_.message({in_place ? in_place : body, bytes});
    if (room_ > kKeptBytes) body_.reset(), room_ = 0;
  }

 private:
  static constexpr u32 kKeptBytes = 256 << 10;

  static std::string compressed_words() {
    return "the server sent a compressed message, which was not offered; look for a proxy in between";
  }
  std::string too_long_words(u32 bytes) const {
    return "the server sent a message of " + std::to_string(bytes) + " bytes, and the limit is " +
           std::to_string(bytes_max_) + "; check that both sides have the same version of fastqps";
  }

  CallListener& listener_;
  const u32 bytes_max_;
  std::optional<CallEnd>& end_;
  front::MessageReader reader_;
  std::unique_ptr<u8[]> body_;  // a message that is being put together
  u32 room_ = 0;
};

}  // namespace fastqps::upstream
