// Who makes a call, and so whom its items belong to unless they name a tenant themselves.
#pragma once
#include <cstring>
#include <string_view>
#include <utility>

#include "contract/request_view.h"
#include "contract/types.h"
#include "contract/utf8.h"

namespace fastqps::transport {

inline constexpr std::string_view kGroupHeader = "fastqps-group";

// The value of a header that a call may have once: UTF-8 of at most kMax bytes, as the field of the same meaning.
template <u32 kMax>
class NameHeader {
 public:
  // False: it was given before, is too long, or is not UTF-8. An empty value names nobody, but counts as given:
  // which of two values counts must not depend on what they are.
  bool take(std::string_view value) {
    const bool first = !std::exchange(given_, true);
    if (first) given_bytes_ = u32(value.size());
    if (!first || value.size() > kMax || !text::valid_utf8(value)) return false;
    if (!value.empty()) std::memcpy(text_, value.data(), value.size());
    return true;
  }
  // After take() has accepted all values.
  std::string_view value() const { return {text_, given_bytes_}; }
  // Whether the first value that was given is too long.
  bool too_long() const { return given_bytes_ > kMax; }
  u32 given_bytes() const { return given_bytes_; }
  static constexpr u32 kBytesMax = kMax;

 private:
  bool given_ = false;
  u32 given_bytes_ = 0;
  char text_[kMax];
};

// What the headers of a call name. A record of its own, because most calls name nothing.
struct CallNames {
  NameHeader<kTenantBytesMax> tenant;
  NameHeader<kGroupBytesMax> group;
};

// Valid while the call is open.
struct Caller {
  const CallNames* names = nullptr;   // nullptr: none
  u32 token = 0;                      // the fingerprint of its bearer token; 0: the server asks for none
  std::string_view certificate = {};  // the subject of its client's certificate, as RFC 2253 writes it; empty: none
};

}  // namespace fastqps::transport
