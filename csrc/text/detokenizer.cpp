#include "text/detokenizer.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "text/bpe/byte_alphabet.h"
#include "text/unicode/utf8.h"

namespace fastqps::text {
namespace {

constexpr u32 kIdsMax = 1 << 24;  // bounds the table of a file with a strange id
constexpr std::string_view kReplacementBytes = "\xEF\xBF\xBD";

// The longest beginning of a character at p, none of which is a whole one: 1 to 3 bytes, or fewer where the text ends.
u32 broken_length(const u8* p, const u8* end) {
  const u8 lead = p[0];
  if (lead < 0xC2 || lead > 0xF4) return 1;
  const u32 whole = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  u32 n = 1;
  while (n < whole && p + n < end) {
    const u8 low = n > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const u8 high = n > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (p[n] < low || p[n] > high) break;
    ++n;
  }
  return n;
}

// Whether more bytes might make a character of the broken one that ends the text.
bool may_go_on(const u8* p, u32 n) {
  if (p[0] < 0xC2 || p[0] > 0xF4) return false;
  return n < (p[0] < 0xE0 ? 2u : p[0] < 0xF0 ? 3u : 4u);
}

// Appends the text of the bytes; returns how many at the end are the beginning of a character.
u32 append_lossy(const u8* p, const u8* end, std::string& out) {
  while (p < end) {
    const u8* valid = p;
    while (valid < end) {
      const int length = *valid < 0x80 ? 1 : utf8_length(valid, end);
      if (length == 0) break;
      valid += length;
    }
    out.append(reinterpret_cast<const char*>(p), static_cast<std::size_t>(valid - p));
    p = valid;
    if (p == end) break;
    const u32 n = broken_length(p, end);
    if (p + n == end && may_go_on(p, n)) return n;
    out.append(kReplacementBytes);
    p += n;
  }
  return 0;
}

// The byte that a piece such as <0x0A> stands for.
std::optional<u8> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  u8 byte = 0;
  const char* end = piece.data() + 5;
  return std::from_chars(piece.data() + 3, end, byte, 16).ptr == end ? std::optional(byte) : std::nullopt;
}

std::string with_spaces(std::string_view piece) {
  constexpr std::string_view kSpelled = "\u2581";
  std::string out;
  for (std::size_t at = piece.find(kSpelled); at != std::string_view::npos; at = piece.find(kSpelled)) {
    out.append(piece.substr(0, at)).push_back(' ');
    piece.remove_prefix(at + kSpelled.size());
  }
  return out.append(piece);
}

}  // namespace

Detokenizer::Detokenizer(const Tokens& tokens) {
  u32 n = 0;
  for (const auto& [id, bytes] : tokens) n = std::max(n, id + 1);
  std::vector<const std::string*> by_id(n);
  for (const auto& [id, bytes] : tokens) by_id[id] = &bytes;
  starts_.reserve(n + 1);
  starts_.push_back(0);
  for (const std::string* bytes : by_id) {
    if (bytes) bytes_ += *bytes;
    starts_.push_back(static_cast<u32>(bytes_.size()));
  }
}

Detokenizer::Detokenizer(const Tokens& tokens, const std::vector<std::pair<u32, u8>>& byte_ids, u32 strip)
    : Detokenizer(tokens) {
  pieces_ = true;
  strip_ = strip;
  is_byte_.resize(n_ids());
  for (const auto& [id, byte] : byte_ids) is_byte_[id] = true;
}

void Detokenizer::append_pieces(DetokenizerState& state, const u32* ids, std::size_t n, std::string& out) const {
  for (std::size_t i = 0; i < n; ++i) {
    std::string_view rest = bytes(ids[i]);
    if (rest.empty()) continue;
    if (is_byte_[ids[i]]) {
      state.bytes += rest;
      continue;
    }
    if (!state.bytes.empty()) put_bytes(state, out);
    put_piece(state, rest, out);
  }
}

void Detokenizer::put_piece(DetokenizerState& state, std::string_view piece, std::string& out) const {
  while (state.n_stripped < strip_ && piece.starts_with(' ')) {
    piece.remove_prefix(1);
    ++state.n_stripped;
  }
  if (!piece.empty()) state.n_stripped = strip_;
  out += piece;
}

void Detokenizer::put_bytes(DetokenizerState& state, std::string& out) const {
  std::string run = std::exchange(state.bytes, {});
  if (!valid_utf8(run)) {
    const std::size_t n = run.size();
    run.clear();
    for (std::size_t i = 0; i < n; ++i) run += kReplacementBytes;
  }
  put_piece(state, run, out);
}

void Detokenizer::append(DetokenizerState& state, const u32* ids, std::size_t n, std::string& out) const {
  if (pieces_) return append_pieces(state, ids, n, out);
  for (std::size_t i = 0; i < n; ++i) {
    std::string_view rest = bytes(ids[i]);
    if (rest.empty()) continue;
    if (state.n_held) {  // what is held, with as much of the token as decides it
      u8 joined[8];
      std::memcpy(joined, state.held.data(), state.n_held);
      const u32 more = static_cast<u32>(std::min<std::size_t>(rest.size(), 3));
      std::memcpy(joined + state.n_held, rest.data(), more);
      const u32 n_joined = state.n_held + more;
      const int length = utf8_length(joined, joined + n_joined);
      const u32 taken = length ? static_cast<u32>(length) : broken_length(joined, joined + n_joined);
      if (!length && taken == n_joined && may_go_on(joined, taken)) {
        std::memcpy(state.held.data(), joined, taken);
        state.n_held = static_cast<u8>(taken);
        continue;
      }
      if (length) {
        out.append(reinterpret_cast<const char*>(joined), taken);
      } else {
        out.append(kReplacementBytes);
      }
      rest.remove_prefix(taken - state.n_held);  // all that is held is the beginning of one character
      state.n_held = 0;
    }
    const u8* p = reinterpret_cast<const u8*>(rest.data());
    state.n_held = static_cast<u8>(append_lossy(p, p + rest.size(), out));
    std::memcpy(state.held.data(), p + rest.size() - state.n_held, state.n_held);
  }
}

void Detokenizer::finish(DetokenizerState& state, std::string& out) const {
  if (state.n_held) out.append(kReplacementBytes);
  state.n_held = 0;
  if (!state.bytes.empty()) put_bytes(state, out);
  state.n_stripped = 0;
}

std::shared_ptr<const Detokenizer> DetokenizerReader::read(const Json& file) {
  const Json& model = member(file, "model");
  if (!decoder(member(file, "decoder")) || !vocabulary(model.is_object() ? member(model, "vocab") : model) ||
      !added_tokens(member(file, "added_tokens"))) {
    return nullptr;
  }
  bool nfc = false;
  if (pieces_ && !config_.normalized_tokens.empty()) {
    refuse("added_tokens: one is found in normalized text");
    return nullptr;
  }
  if (!config_.normalized_tokens.empty() && !nfc_normalizer(member(file, "normalizer"), nfc)) return nullptr;
  std::unordered_set<std::string> special;
  for (const auto* added : {&config_.raw_tokens, &config_.normalized_tokens}) {
    for (const AddedToken& token : *added) {
      if (token.special) special.insert(token.pattern);
    }
  }
  if (nfc) compose(config_.normalized_tokens);

  // The package takes an added token's normalized text, also for the question of whether it is special.
  Detokenizer::Tokens tokens;
  std::vector<std::pair<u32, u8>> byte_ids;
  const auto put = [&](const std::string& token, u32 id) {
    if (special.contains(token)) {
      tokens.emplace_back(id, "");
    } else if (!pieces_) {
      tokens.emplace_back(id, bytes_of_token(token).value_or(token));
    } else if (const std::optional<u8> byte = byte_of_piece(token)) {
      tokens.emplace_back(id, std::string(1, char(*byte)));
      byte_ids.emplace_back(id, *byte);
    } else {
      tokens.emplace_back(id, with_spaces(token));
    }
  };
  for (const auto& [token, id] : ids_) {
    if (id >= kIdsMax) return refuse("model: an id is above " + std::to_string(kIdsMax)), nullptr;
    put(token, id);
  }
  for (const auto* added : {&config_.raw_tokens, &config_.normalized_tokens}) {
    for (const AddedToken& token : *added) put(token.pattern, token.id);
  }
  if (pieces_) return std::make_shared<const Detokenizer>(tokens, byte_ids, strip_);
  return std::make_shared<const Detokenizer>(tokens);
}

bool DetokenizerReader::decoder(const Json& at) {
  if (has_type(at, "Sequence") && member(at, "decoders").is_array() && at["decoders"].size() == 1) {
    return known_keys(at, "decoder", {"type", "decoders"}) && decoder(at["decoders"][0]);
  }
  if (has_type(at, "Sequence")) return pieces(at);
  if (!has_type(at, "ByteLevel")) return refuse("decoder: only ByteLevel, and SentencePiece's Sequence, are native");
  return known_keys(at, "decoder", {"type"}, {"add_prefix_space", "trim_offsets", "use_regex"});
}

// Replace, ByteFallback, Fuse, and a Strip of spaces at the beginning or none.
bool DetokenizerReader::pieces(const Json& at) {
  if (!known_keys(at, "decoder", {"type", "decoders"})) return false;
  const Json& steps = at["decoders"];
  if (!steps.is_array() || steps.size() < 3 || steps.size() > 4)
    return refuse("decoder: a Sequence that is not native");
  if (!piece_step(steps[0], "Replace") || !piece_step(steps[1], "ByteFallback") || !piece_step(steps[2], "Fuse"))
    return false;
  pieces_ = true;
  return steps.size() == 3 || piece_step(steps[3], "Strip");
}

bool DetokenizerReader::piece_step(const Json& at, const char* type) {
  if (!has_type(at, type)) return refuse(std::string("decoder: a Sequence without ") + type + " in its place");
  if (at["type"] == "Replace") {
    if (!known_keys(at, "decoder", {"type", "pattern", "content"})) return false;
    const Json& pattern = at["pattern"];
    const bool spaces = pattern.is_object() && pattern.size() == 1 && member(pattern, "String") == "\u2581";
    return (spaces && at["content"] == " ") || refuse("decoder: a Replace of something else than U+2581 by a space");
  }
  if (at["type"] != "Strip") return known_keys(at, "decoder", {"type"});
  if (!known_keys(at, "decoder", {"type", "content", "start", "stop"})) return false;
  if (at["content"] != " " || at["stop"] != 0 || !is_u32(at["start"]))
    return refuse("decoder: a Strip that is not native");
  strip_ = at["start"].get<u32>();
  return true;
}

}  // namespace fastqps::text
