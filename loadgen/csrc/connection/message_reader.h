// Takes the bytes of a gRPC answer apart into messages without compression, which was not offered.
#pragma once
#include <string>
#include <string_view>

#include "transport/framing/grpc_message.h"
#include "types.h"

namespace loadgen {

using fastqps::transport::kPrefixBytes, fastqps::transport::write_prefix;

class MessageReader {
 public:
  void reset(u64 bytes_max) {
    reader_ = {};
    broken_ = false;
    bytes_max_ = bytes_max;
  }
  // on_message(view). After a broken frame nothing more is read.
  template <class OnMessage>
  void read(const u8* data, size_t bytes, OnMessage on_message) {
    Sink<OnMessage> sink{body_, bytes_max_, on_message};
    broken_ = broken_ || !reader_.feed(data, bytes, sink);
  }
  // Between two messages; otherwise the answer was cut short.
  bool complete() const { return !broken_ && reader_.between_messages(); }
  // Memory that an unusual answer needed is given back.
  void trim() {
    reader_ = {};
    if (body_.capacity() > (64 << 10)) std::string().swap(body_);
  }

 private:
  template <class OnMessage>
  struct Sink {
    std::string& body;  // of a message that is put together
    const u64 bytes_max;
    OnMessage& on_message;

    bool prefix(u8 flag, u32 bytes) { return !flag && bytes <= bytes_max; }
    u8* grow(u8*, u32, u32 room) {
      body.resize(room);
      return reinterpret_cast<u8*>(body.data());
    }
    void message(u8, const u8* in_place, u8* whole, u32 bytes) { on_message(view(in_place ? in_place : whole, bytes)); }
  };

  fastqps::transport::MessageReader reader_;
  std::string body_;
  u64 bytes_max_ = 0;
  bool broken_ = false;
};

}  // namespace loadgen
