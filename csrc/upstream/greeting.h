// The first bytes of a server: whether it speaks another protocol than the one that is expected, in words.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "core/types.h"

namespace fastqps::upstream {

class Greeting {
 public:
  void take(std::span<const u8> bytes) {
    const size_t taken = std::min(bytes.size(), kBytes - first_.size());
    first_.append(reinterpret_cast<const char*>(bytes.data()), taken);
  }
  bool empty() const { return first_.empty(); }
  // Whether they are of a server that speaks TLS, and has been spoken to without.
  bool wants_tls() const;
  // Why these bytes are no HTTP/2. fault: what the library says.
  std::string explain(std::string_view fault) const;

 private:
  static constexpr size_t kBytes = 64;

  std::string first_;
};

// The text with everything but printable ASCII replaced, so that it can stand in a line of a log.
std::string printable(std::string_view text);

}  // namespace fastqps::upstream
