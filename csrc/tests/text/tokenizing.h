// What tests of tokenizers share: tokenizers from the text of a file, ids as text, and memory with a fence behind it.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/check.h"
#include "text/tokenizer.h"

namespace fastqps::text {

using Ids = std::vector<u32>;

inline std::string show(const Ids& ids) {
  std::string out;
  for (const u32 id : ids) out += std::to_string(id) + " ";
  return out;
}

inline std::unique_ptr<Tokenizer> loaded(const std::string& content, SpecialTokens special = SpecialTokens::kAll) {
  std::string why;
  auto tokenizer = load_native(content, &why, special);
  if (!tokenizer) test::fail(__FILE__, __LINE__, why);
  return tokenizer;
}

inline void check_reason(const std::string& why, std::string_view reason) {
  if (why.find(reason) == std::string::npos) test::fail(__FILE__, __LINE__, why + " has no " + std::string(reason));
}

inline void check_refused(const std::string& content, std::string_view reason) {
  std::string why;
  CHECK(!load_native(content, &why));
  check_reason(why, reason);
}

// Memory between pages that may not be touched.
class Fenced {
 public:
  Fenced() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* at = mmap(nullptr, page_ * 3, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    begin_ = static_cast<char*>(at) + page_;
    CHECK(mprotect(begin_, page_, PROT_READ | PROT_WRITE) == 0);
  }
  Fenced(const Fenced&) = delete;
  ~Fenced() { munmap(begin_ - page_, page_ * 3); }
  // Its last byte is followed by the fence.
  std::string_view put(std::string_view text) { return put_at(begin_ + page_ - text.size(), text); }
  // Its first byte follows the fence.
  std::string_view put_first(std::string_view text) { return put_at(begin_, text); }

 private:
  std::string_view put_at(char* at, std::string_view text) {
    CHECK(text.size() <= page_);
    std::memcpy(at, text.data(), text.size());
    return {at, text.size()};
  }

  std::size_t page_;
  char* begin_;
};

}  // namespace fastqps::text
