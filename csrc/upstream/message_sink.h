// Where the reader of gRPC messages (grpc/grpc_message.h) puts those of a server: whole messages go to the listener,
// and those in pieces are put together in a buffer that is used again.
#pragma once
#include <cstring>
#include <memory>
#include <optional>

#include "upstream/call_end.h"
#include "upstream/call_listener.h"

namespace fastqps::upstream {

class MessageSink {
 public:
  // end: where the call's end is noted. After it nothing is passed on.
  MessageSink(CallListener& listener, u32 bytes_max, std::optional<CallEnd>& end)
      : listener_(listener), bytes_max_(bytes_max), end_(end) {}

  bool prefix(u8 flag, u32 bytes) {
    if (end_) return false;
    if (flag == 0 && bytes <= bytes_max_) return true;
    if (flag)
      end_ = {End::kProtocol, 0,
              "the server sent a compressed message, which was not offered; look for a proxy in between"};
    else
      end_ = {End::kProtocol, 0,
              "the server sent a message of " + std::to_string(bytes) + " bytes, and the limit is " +
                  std::to_string(bytes_max_) + "; check that both sides have the same version of fastqps"};
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

  CallListener& listener_;
  const u32 bytes_max_;
  std::optional<CallEnd>& end_;
  std::unique_ptr<u8[]> body_;  // a message that is being put together
  u32 room_ = 0;
};

}  // namespace fastqps::upstream
