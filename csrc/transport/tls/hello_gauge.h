// Reads the announced length of a TLS client's hello from the records before OpenSSL sees them. OpenSSL accepts hellos
// of 128 KB, and takes several times that memory, from any client. A usual hello has less than 2 KB.
#pragma once
#include <algorithm>

#include "contract/types.h"

namespace fastqps::transport {

class HelloGauge {
 public:
  static constexpr u32 kMax = 16 << 10;

  // Takes the next bytes, cut anywhere. Returns false if a message in them is longer than allowed.
  bool feed(const u8* data, size_t bytes) {
    while (bytes) {
      size_t n = 1;
      if (record_left_ == 0) {
        record_.push(*data);
        if (record_.full()) record_left_ = record_.take(), is_handshake_ = record_.at[0] == kHandshakeRecord;
      } else {
        n = std::min<size_t>(bytes, record_left_);
        if (is_handshake_ && !read_messages(data, n)) return false;
        record_left_ -= u32(n);
      }
      data += n, bytes -= n;
    }
    return true;
  }

 private:
  static constexpr u8 kHandshakeRecord = 0x16;

  // A type, something, and a length at the end.
  template <u32 kBytes, u32 kLengthBytes>
  struct Head {
    u8 at[kBytes] = {};
    u32 bytes = 0;
    void push(u8 byte) { at[bytes++] = byte; }
    bool full() const { return bytes == kBytes; }
    u32 take() {
      u32 length = 0;
      for (u32 i = kBytes - kLengthBytes; i < kBytes; i++) length = length << 8 | at[i];
      return bytes = 0, length;
    }
  };

  bool read_messages(const u8* data, size_t bytes) {
    while (bytes) {
      size_t n = 1;
      if (message_left_ == 0) {
        message_.push(*data);
        if (message_.full()) message_left_ = message_.take();
        if (message_left_ > kMax) return false;
      } else {
        n = std::min<size_t>(bytes, message_left_);
        message_left_ -= u32(n);
      }
      data += n, bytes -= n;
    }
    return true;
  }

  Head<5, 2> record_;
  Head<4, 3> message_;
  u32 record_left_ = 0, message_left_ = 0;
  bool is_handshake_ = false;
};

}  // namespace fastqps::transport
