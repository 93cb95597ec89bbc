#include "text/load/detokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "contract/utf8.h"
#include "text/byte_tokens.h"
#include "text/spaced/spaced_json.h"

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

std::string without(std::string_view text, std::string_view part) {
  std::string out;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part)) {
    out.append(text.substr(0, at));
    text.remove_prefix(at + part.size());
  }
  return out.append(text);
}

}  // namespace

Detokenizer::Detokenizer(const Tokens& tokens) { fill(tokens); }

void Detokenizer::fill(const Tokens& tokens) {
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

Detokenizer::Detokenizer(const Tokens& tokens, PieceRules rules) : rules_(rules) {
  Tokens texts = tokens;
  for (auto& [id, text] : texts) {
    if (is_byte_.size() <= id) is_byte_.resize(id + std::size_t{1});
    const auto byte = rules.byte_tokens ? byte_of_piece(text) : std::nullopt;
    is_byte_[id] = byte.has_value();
    real_spaces_.erase(id);
    if (byte) {
      text.assign(1, static_cast<char>(*byte));
    } else if (rules.spaces) {
      if (rules.drops_first && text.find(' ') != std::string::npos) real_spaces_.insert_or_assign(id, text);
      text = with_spaces(text);
    }
  }
  fill(texts);
}

std::optional<u32> Detokenizer::special_id(std::string_view spelled) const {
  for (const auto& [id, text] : specials_)
    if (text == spelled) return id;
  return {};
}

std::string_view Detokenizer::special(u32 id) const {
  for (const auto& [special, text] : specials_)
    if (special == id) return text;
  return {};
}

void Detokenizer::append_pieces(DetokenizerState& state, const u32* ids, std::size_t n, std::string& out) const {
  for (std::size_t i = 0; i < n; ++i) {
    const std::string_view piece = bytes(ids[i]);
    if (piece.empty()) continue;
    if (is_byte_[ids[i]]) {
      state.bytes += piece;
      continue;
    }
    if (!state.bytes.empty()) put_bytes(state, out);
    if (rules_->drops_first && !state.begun) {
      put_piece(state, first_piece(ids[i], piece), out);
    } else {
      put_piece(state, piece, out);
    }
  }
}

std::string Detokenizer::first_piece(u32 id, std::string_view piece) const {
  const auto found = real_spaces_.find(id);
  return found == real_spaces_.end() ? without(piece, " ") : without(found->second, kSpelledSpace);
}

void Detokenizer::put_piece(DetokenizerState& state, std::string_view piece, std::string& out) const {
  state.begun = true;
  while (state.n_stripped < rules_->strip && piece.starts_with(' ')) {
    piece.remove_prefix(1);
    ++state.n_stripped;
  }
  if (!piece.empty()) state.n_stripped = rules_->strip;
  out += piece;
}

void Detokenizer::put_bytes(DetokenizerState& state, std::string& out) const {
  std::string run = std::exchange(state.bytes, {});
  if (!valid_utf8(run)) {
    const std::size_t n = run.size();
    run.clear();
    for (std::size_t i = 0; i < n; ++i) run += kReplacementBytes;
  } else if (rules_->meta_spaces) {
    run = rules_->drops_first && !state.begun ? without(run, kSpelledSpace) : with_spaces(run);
  }
  put_piece(state, run, out);
}

void Detokenizer::append(DetokenizerState& state, const u32* ids, std::size_t n, std::string& out) const {
  if (rules_) return append_pieces(state, ids, n, out);
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
  state.begun = false;
}

std::shared_ptr<const Detokenizer> DetokenizerReader::read(const Json& file) {
  const Json& model = member(file, "model");
  const Json& vocab = model.is_object() ? member(model, "vocab") : model;
  if (!decoder(member(file, "decoder")) || !(vocab.is_array() ? scored_vocabulary(vocab) : vocabulary(vocab)) ||
      !added_tokens(member(file, "added_tokens"))) {
    return nullptr;
  }
  std::unordered_set<std::string> special;
  Detokenizer::Tokens specials;
  for (const auto* added : {&config_.raw_tokens, &config_.normalized_tokens}) {
    for (const AddedToken& token : *added) {
      if (!token.special) continue;
      special.insert(token.pattern);
      specials.emplace_back(token.id, token.pattern);
    }
  }
  if (!normalized(member(file, "normalizer"))) return nullptr;

  // The package takes an added token's normalized text, also for the question of whether it is special.
  Detokenizer::Tokens tokens;
  const auto put = [&](const std::string& token, u32 id) {
    if (special.contains(token)) {
      tokens.emplace_back(id, "");
    } else {
      tokens.emplace_back(id, by_piece_ ? token : bytes_of_token(token).value_or(token));
    }
  };
  for (const auto& [token, id] : ids_) {
    if (id >= kIdsMax) return refuse("model: an id is above " + std::to_string(kIdsMax)), nullptr;
    if (rules_.drops_first && token.empty()) return refuse("model: an empty piece"), nullptr;
    put(token, id);
  }
  for (u32 id = 0; id < scored_.size(); ++id) put(scored_[id].first, id);
  for (const auto* added : {&config_.raw_tokens, &config_.normalized_tokens}) {
    for (const AddedToken& token : *added) put(token.pattern, token.id);
  }
  auto made = by_piece_ ? std::make_shared<Detokenizer>(tokens, rules_) : std::make_shared<Detokenizer>(tokens);
  made->set_specials(std::move(specials));
  return made;
}

bool DetokenizerReader::normalized(const Json& at) {
  if (config_.normalized_tokens.empty()) return true;
  std::string why;
  std::vector<NormalizerStep> steps;
  if (!NormalizersReader(config_, why).read(at, steps)) return refuse(why);
  normalize(Normalizers(std::move(steps)), config_.normalized_tokens);
  return true;
}

bool DetokenizerReader::decoder(const Json& at) {
  if (has_type(at, "Sequence")) {
    if (!known_keys(at, "decoder", {"type", "decoders"})) return false;
    const Json& steps = at["decoders"];
    if (!steps.is_array() || steps.empty()) return refuse("decoder: a Sequence of nothing");
    return steps.size() == 1 ? decoder(steps[0]) : pieces(steps);
  }
  if (!has_type(at, "ByteLevel")) return pieces(Json::array({at}));
  return known_keys(at, "decoder", {"type"}, {"add_prefix_space", "trim_offsets", "use_regex"});
}

// Accepts some of Replace, ByteFallback, Metaspace, Fuse and Strip, in this order.
bool DetokenizerReader::pieces(const Json& steps) {
  by_piece_ = true;
  std::size_t done = 0;
  for (const char* type : {"Replace", "ByteFallback", "Metaspace", "Fuse", "Strip"}) {
    if (done < steps.size() && has_type(steps[done], type) && !piece_step(steps[done++])) return false;
  }
  if (done == steps.size()) return true;
  const Json& type = steps[done].is_object() ? member(steps[done], "type") : Json();
  const std::string name = type.is_string() ? type.get<std::string>() : "one without a type";
  return refuse("decoder: " + name + (done ? " in this place" : "") +
                " is not native, only ByteLevel and SentencePiece's are");
}

bool DetokenizerReader::piece_step(const Json& at) {
  const std::string& type = at["type"].get_ref<const std::string&>();
  if (type == "Replace") {
    if (!known_keys(at, "decoder", {"type", "pattern", "content"})) return false;
    const Json& pattern = at["pattern"];
    rules_.spaces = pattern.is_object() && pattern.size() == 1 && member(pattern, "String") == kSpelledSpace;
    return (rules_.spaces && at["content"] == " ") ||
           refuse("decoder: a Replace of something else than U+2581 by a space");
  }
  if (type == "Metaspace") {
    if (!known_keys(at, "decoder", {"type", "replacement"}, {"prepend_scheme", "split", "add_prefix_space", "str_rep"}))
      return false;
    if (at["replacement"] != kSpelledSpace) return refuse("decoder: Metaspace with another character than U+2581");
    if (rules_.spaces) return refuse("decoder: Metaspace behind a Replace");
    const Json& add = member(at, "add_prefix_space");
    const bool never = member(at, "prepend_scheme") == "never";
    if (add == false && !never) return refuse("decoder: add_prefix_space and prepend_scheme differ");
    rules_.spaces = rules_.meta_spaces = true;
    rules_.drops_first = !never;
    return true;
  }
  rules_.byte_tokens = rules_.byte_tokens || type == "ByteFallback";
  fused_ = fused_ || type == "Fuse";
  return type == "Strip" ? strip(at) : known_keys(at, "decoder", {"type"});
}

bool DetokenizerReader::strip(const Json& at) {
  if (!known_keys(at, "decoder", {"type", "content", "start", "stop"})) return false;
  if (!fused_) return refuse("decoder: a Strip of each token");
  if (at["content"] != " " || at["stop"] != 0 || !is_u32(at["start"]))
    return refuse("decoder: a Strip that is not native");
  rules_.strip = at["start"].get<u32>();
  return true;
}

}  // namespace fastqps::text
