// Messages that wait to be sent, each behind its gRPC prefix, in one piece of memory: frames are cut from it anywhere.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "core/types.h"
#include "grpc/grpc_message.h"

namespace fastqps::upstream {

class MessageQueue {
 public:
  // Room for a message of at most so many bytes, until the next call.
  u8* begin(size_t bytes) {
    make_room(front::kPrefixBytes + bytes);
    return data_.get() + end_ + front::kPrefixBytes;
  }
  // The message that begin() gave room for has so many bytes.
  void commit(size_t bytes) {
    front::write_prefix(data_.get() + end_, u32(bytes));
    end_ += front::kPrefixBytes + bytes;
  }
  // Moves the first bytes, of which there are as many, to out.
  void take(u8* out, size_t bytes) {
    std::memcpy(out, data_.get() + begin_, bytes);
    begin_ += bytes;
    if (begin_ < end_) return;
    begin_ = end_ = 0;
    if (room_ > kKeptBytes) data_.reset(), room_ = 0;
  }
  size_t bytes() const { return end_ - begin_; }
  // No message follows.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }

 private:
  static constexpr size_t kLeastBytes = 16 << 10, kKeptBytes = 1 << 20;

  void make_room(size_t bytes) {
    if (room_ - end_ >= bytes) return;
    const size_t held = end_ - begin_;
    if (held + bytes <= room_ / 2) {  // so that a byte is moved no more often than once for each byte that was sent
      std::memmove(data_.get(), data_.get() + begin_, held);
    } else {
      const size_t room = std::max(kLeastBytes, 2 * (held + bytes));
      auto grown = std::make_unique_for_overwrite<u8[]>(room);
      if (held) std::memcpy(grown.get(), data_.get() + begin_, held);
      data_ = std::move(grown), room_ = room;
    }
    begin_ = 0, end_ = held;
  }

  std::unique_ptr<u8[]> data_;
  size_t room_ = 0, begin_ = 0, end_ = 0;
  bool closed_ = false;
};

}  // namespace fastqps::upstream
