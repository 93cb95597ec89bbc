// gRPC's message framing: one flag byte, four bytes of length (big-endian), the message. Frames and messages are
// unrelated: a prefix may be split anywhere. A message that lies whole in one chunk is passed on in place; others are
// reassembled.
#pragma once
#include <algorithm>
#include <cstring>

#include "contract/types.h"

namespace fastqps::transport {

inline constexpr u32 kPrefixBytes = 5;

inline u32 read_be32(const u8* p) { return u32(p[0]) << 24 | u32(p[1]) << 16 | u32(p[2]) << 8 | p[3]; }
inline void write_prefix(u8* p, u32 bytes) {
  p[0] = 0;
  p[1] = u8(bytes >> 24), p[2] = u8(bytes >> 16), p[3] = u8(bytes >> 8), p[4] = u8(bytes);
}

// A Sink has
//   bool prefix(u8 flag, u32 bytes)              as soon as a message's prefix is known; false stops the reader
//   u8* grow(u8* body, u32 before, u32 room)     a larger buffer with the same bytes for a message that is put together
//                                                (nullptr and 0 at first), whose room is its length in the end; nullptr
//                                                stops the reader. body is the sink's
//   void message(u8 flag, const u8* in_place, u8* body, u32 bytes)   exactly one of the two is set (in place also when
//                                                empty); body is now the sink's
class MessageReader {
 public:
  // Returns false if the sink has stopped the reader. Do not call it again then.
  template <class Sink>
  bool feed(const u8* data, size_t bytes, Sink& sink) {
    while (bytes) {
      if (have_prefix_ < kPrefixBytes) {
        if (!take_prefix(data, bytes, sink)) return false;
        if (have_prefix_ < kPrefixBytes || bytes == 0) continue;  // an empty message, or no more bytes
      }
      const u32 missing = length() - have_;
      if (have_ == 0 && bytes >= missing) {
        have_prefix_ = 0;
        sink.message(prefix_[0], data, nullptr, missing);
        data += missing, bytes -= missing;
        continue;
      }
      const u32 taken = u32(std::min<size_t>(missing, bytes));
      if (!put_together(data, taken, sink)) return false;
      data += taken, bytes -= taken;
    }
    return true;
  }

  // For messages without a prefix: a message of this length follows, more than 0. The rest is as if its prefix had
  // come.
  void expect(u8 flag, u32 bytes) {
    write_prefix(prefix_, bytes);
    prefix_[0] = flag;
    have_prefix_ = kPrefixBytes;
    have_ = 0;
  }
  // The same of a message whose end is announced by end(). It is never passed on in place.
  void expect_open(u8 flag) { expect(flag, kOpenBytes); }
  bool open() const { return have_prefix_ == kPrefixBytes && length() == kOpenBytes; }
  // The end of an open message: passes it on, with a buffer that may be larger.
  template <class Sink>
  void end(Sink& sink) {
    have_prefix_ = 0;
    if (!have_) return;  // it is empty
    sink.shrink(room(), have_);
    sink.message(prefix_[0], nullptr, take_body(), have_);
  }

  bool between_messages() const { return have_prefix_ == 0; }
  // Bytes of the unfinished message so far.
  u32 have() const { return have_prefix_ < kPrefixBytes ? 0 : have_; }
  // The unfinished message's buffer, which becomes the caller's; nullptr: there is none.
  u8* take_body() {
    u8* body = body_;
    body_ = nullptr;
    return body;
  }
  u32 room() const { return body_ ? room_ : 0; }

 private:
  static constexpr u32 kOpenBytes = ~u32(0);

  u32 length() const { return read_be32(prefix_ + 1); }

  template <class Sink>
  bool take_prefix(const u8*& data, size_t& bytes, Sink& sink) {
    const size_t taken = std::min<size_t>(kPrefixBytes - have_prefix_, bytes);
    std::memcpy(prefix_ + have_prefix_, data, taken);
    have_prefix_ += u8(taken), data += taken, bytes -= taken;
    if (have_prefix_ < kPrefixBytes) return true;
    have_ = 0;
    if (!sink.prefix(prefix_[0], length())) return false;
    if (length() == 0) {
      have_prefix_ = 0;
      sink.message(prefix_[0], data, nullptr, 0);
    }
    return true;
  }

  template <class Sink>
  bool put_together(const u8* data, u32 taken, Sink& sink) {
    if (!body_ || have_ + taken > room_) {
      // Room grows with the received bytes, not with the announced length, which costs the sender nothing.
      const u32 room = std::min<u64>(length(), std::max<u64>(u64(have_ + taken) * 2, 1024));
      const u32 before = this->room();
      u8* grown = sink.grow(take_body(), before, room);
      if (!grown) return false;
      body_ = grown, room_ = room;
    }
    std::memcpy(body_ + have_, data, taken);
    have_ += taken;
    if (have_ == length()) {
      have_prefix_ = 0;
      sink.message(prefix_[0], nullptr, take_body(), have_);
    }
    return true;
  }

  u8 prefix_[kPrefixBytes] = {};
  u8 have_prefix_ = 0;
  u32 have_ = 0;  // of the message
  u32 room_ = 0;
  u8* body_ = nullptr;
};

}  // namespace fastqps::transport
