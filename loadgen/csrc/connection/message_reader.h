// Takes the bytes of a gRPC answer apart into messages. A message that lies whole in what was read is handed on where
// it is; others are put together, if anybody wants to see them.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "transport/framing/grpc_message.h"
#include "types.h"

namespace loadgen {

using fastqps::transport::kPrefixBytes, fastqps::transport::write_prefix;

class MessageReader {
 public:
  // keep: the contents of messages are wanted, otherwise on_message gets an empty view.
  void reset(bool keep, u64 bytes_max) {
    prefix_have_ = 0;
    left_ = 0;
    in_message_ = broken_ = false;
    keep_ = keep;
    bytes_max_ = bytes_max;
    kept_.clear();
  }
  // on_message(view, length). After a broken frame nothing more is read.
  template <class OnMessage>
  void read(const u8* data, size_t bytes, OnMessage on_message) {
    while (!broken_) {
      if (!in_message_ && !read_prefix(data, bytes)) return;
      const size_t n = size_t(std::min<u64>(left_, bytes));
      const char* text = reinterpret_cast<const char*>(data);
      if (n == left_ && kept_.empty()) {
        on_message(std::string_view(text, keep_ ? n : 0), length_);
      } else {
        if (keep_) kept_.append(text, n);
        if (n == left_) {
          on_message(std::string_view(kept_), length_);
          kept_.clear();
        }
      }
      data += n;
      bytes -= n;
      left_ -= n;
      if (left_) return;
      in_message_ = false;
    }
  }
  // Between two messages; otherwise the answer was cut short.
  bool complete() const { return !broken_ && !in_message_ && prefix_have_ == 0; }
  // Memory that an unusual answer needed is given back.
  void trim() {
    if (kept_.capacity() > (64 << 10)) std::string().swap(kept_);
  }

 private:
  bool read_prefix(const u8*& data, size_t& bytes) {
    while (prefix_have_ < kPrefixBytes) {
      if (!bytes) return false;
      prefix_[prefix_have_++] = *data++;
      bytes--;
    }
    prefix_have_ = 0;
    length_ = left_ = fastqps::transport::read_be32(prefix_ + 1);
    in_message_ = true;
    broken_ = prefix_[0] != 0 || left_ > bytes_max_;  // compression was not offered
    return !broken_;
  }

  u8 prefix_[kPrefixBytes];
  u32 prefix_have_ = 0;
  bool in_message_ = false, broken_ = false, keep_ = false;
  u64 left_ = 0, length_ = 0, bytes_max_ = 0;
  std::string kept_;
};

}  // namespace loadgen
