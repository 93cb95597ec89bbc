// The answers of a call's items until it has all of them. They are copies, because a slot is free when its answer has
// been read.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "contract/response_view.h"
#include "contract/types.h"

namespace fastqps::service {

class KeptAnswers {
 public:
  void expect(u32 items) { items_ = items; }
  // Copies the answer and everything that it refers to.
  void keep(u32 index, const ResponseView& answer);
  std::span<const ResponseView> all() const { return views_; }
  // The memory that they take, and that one more takes beside its copy.
  size_t bytes() const { return bytes_; }
  size_t missing_bytes() const { return (items_ - views_.size()) * sizeof(ResponseView); }

 private:
  static constexpr size_t kFirstBlock = 4 << 10, kLargestBlock = 256 << 10;

  template <class T>
  std::span<const T> copy(std::span<const T> values);
  std::string_view copy(std::string_view text);
  template <class T>
  const T* copy(const T* value);
  u8* take(size_t bytes);
  void make_views();

  u32 items_ = 0;
  std::vector<ResponseView> views_;
  std::vector<std::unique_ptr<u8[]>> blocks_;
  u8 *free_ = nullptr, *end_ = nullptr;  // of the newest block
  size_t next_block_ = kFirstBlock, bytes_ = 0;
};

}  // namespace fastqps::service
