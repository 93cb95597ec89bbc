// The bearer tokens that calls may carry. Known by their SHA-256 alone: digests have one length, so that comparing them
// takes as long whatever was guessed, and nobody who reads the set finds a token.
#pragma once
#include <openssl/evp.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace fastqps::front {

// The header that a connection's last good call had, as it came: the next one mostly has the same, and hashing costs
// more than all other headers together.
struct KnownBearer {
  std::string header;
  u64 tokens = 0;  // Tokens::id of those that took it
};

class Tokens {
 public:
  using Digest = std::array<u8, 32>;
  static constexpr size_t kTokenBytes = 4096;  // longest

  // id: another one for each set, not 0.
  Tokens(std::vector<Digest> digests, u64 id);

  // Whether an authorization header ("Bearer TOKEN") holds one of them.
  bool accept(std::string_view header, KnownBearer& known) const;

 private:
  bool holds(std::string_view token) const;

  struct Free {
    void operator()(EVP_MD* digest) const { EVP_MD_free(digest); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  const std::vector<Digest> digests_;
  const u64 id_;
  std::unique_ptr<EVP_MD, Free> sha256_;
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace fastqps::front
