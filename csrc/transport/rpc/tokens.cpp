#include "transport/rpc/tokens.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

namespace fastqps::transport {

namespace {

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// The token behind "Bearer", whose case does not matter; empty: another scheme.
std::string_view token_of(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  const auto lower = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? char(a + 32) : a) == b; };
  if (header.size() <= kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), header.begin(), [&](char b, char a) { return lower(a, b); }))
    return {};
  header.remove_prefix(kScheme.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

u32 fingerprint_of(const Tokens::Digest& digest) {
  return std::max(1u, u32(digest[0]) << 24 | u32(digest[1]) << 16 | u32(digest[2]) << 8 | digest[3]);
}

}  // namespace

Tokens::Tokens(std::vector<Digest> digests, u64 id)
    : digests_(std::move(digests)),
      id_(id),
      sha256_(EVP_MD_fetch(nullptr, "SHA256", nullptr)),
      context_(EVP_MD_CTX_new()) {}

bool Tokens::accept(std::string_view header, KnownBearer& known) const {
  if (known.tokens == id_ && same(header, known.header)) return true;
  const std::string_view token = token_of(header);
  u32 fingerprint;
  if (token.empty() || token.size() > kTokenBytes || !holds(token, &fingerprint)) return false;
  known.header = header;
  known.tokens = id_;
  known.fingerprint = fingerprint;
  return true;
}

bool Tokens::holds(u32 fingerprint) const {
  return std::any_of(digests_.begin(), digests_.end(),
                     [fingerprint](const Digest& digest) { return fingerprint_of(digest) == fingerprint; });
}

// Compares all of them, even after a match.
bool Tokens::holds(std::string_view token, u32* fingerprint) const {
  Digest found{};
  if (EVP_DigestInit_ex2(context_.get(), sha256_.get(), nullptr) != 1 ||
      EVP_DigestUpdate(context_.get(), token.data(), token.size()) != 1 ||
      EVP_DigestFinal_ex(context_.get(), found.data(), nullptr) != 1)
    return false;
  bool any = false;
  for (const Digest& digest : digests_) any |= CRYPTO_memcmp(digest.data(), found.data(), found.size()) == 0;
  *fingerprint = fingerprint_of(found);
  return any;
}

}  // namespace fastqps::transport
