// The accepted bearer tokens, stored as SHA-256 digests. Digests have one length, so that a comparison takes the same
// time for every guess, and reading the set reveals no token.
#pragma once
#include <openssl/evp.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contract/types.h"

namespace fastqps::transport {

// The authorization header of a connection's last accepted call. The next call usually has the same, and hashing costs
// more than all other headers together.
struct KnownBearer {
  std::string header;
  u64 tokens = 0;       // Tokens::id of those that took it
  u32 fingerprint = 0;  // of its token
};

class Tokens {
 public:
  using Digest = std::array<u8, 32>;
  static constexpr size_t kTokenBytes = 4096;  // longest

  // id: another one for each set, not 0.
  Tokens(std::vector<Digest> digests, u64 id);

  // Whether an authorization header ("Bearer TOKEN") holds one of them. Its fingerprint is the first 4 bytes of the
  // digest as a big-endian number, 1 for 0: enough to tell clients apart, and of no use to find the token.
  bool accept(std::string_view header, KnownBearer& known) const;
  // Whether one of them has this fingerprint.
  bool holds(u32 fingerprint) const;

 private:
  bool holds(std::string_view token, u32* fingerprint) const;

  struct Free {
    void operator()(EVP_MD* digest) const { EVP_MD_free(digest); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  const std::vector<Digest> digests_;
  const u64 id_;
  std::unique_ptr<EVP_MD, Free> sha256_;
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace fastqps::transport
