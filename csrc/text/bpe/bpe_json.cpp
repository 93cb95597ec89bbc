#include "text/bpe/bpe_json.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "text/bpe/byte_alphabet.h"
#include "text/unicode/utf8.h"

namespace fastqps::text {

namespace {

constexpr const char* kSpace = "\u2581";

}  // namespace

bool BpeReader::read(const Json& file) {
  if (file.contains("model") && file["model"].is_object() && member(file["model"], "byte_fallback") == true &&
      (member(file, "pre_tokenizer").is_null() || has_type(file["pre_tokenizer"], "Metaspace")))
    return spaced(file);
  return envelope(file) && model(file["model"]) && nfc_normalizer(member(file, "normalizer"), config_.nfc) &&
         pre_tokenizer(file["pre_tokenizer"]) && added_tokens(member(file, "added_tokens")) && patterns() &&
         surround(file);
}

bool BpeReader::model(const Json& at) {
  if (!known_keys(at, "model", {"type", "vocab", "merges"},
                  {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                   "byte_fallback", "ignore_merges"})) {
    return false;
  }
  const Json& dropout = member(at, "dropout");
  if (!dropout.is_null() && dropout != 0.0) return refuse("model: dropout is not native");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!member(at, key).is_null() && member(at, key) != "") return refuse(std::string("model: ") + key);
  }
  for (const char* key : {"ignore_merges", "byte_fallback", "fuse_unk"}) {
    const Json& flag = member(at, key);
    if (!flag.is_null() && !flag.is_boolean()) return refuse(std::string("model: ") + key + " is not true or false");
  }
  const bool by_character = config_.rule == WordRule::kSpaced;
  if (!vocabulary(at["vocab"]) || !(by_character ? characters() : alphabet(at)) || !merges(at["merges"])) return false;
  for (const auto& [token, id] : ids_) config_.vocab_size = std::max(config_.vocab_size, id + 1);
  if (member(at, "ignore_merges") != true) return true;
  if (by_character) return refuse("model: ignore_merges with byte_fallback");
  for (const auto& [token, id] : ids_) {
    if (auto bytes = bytes_of_token(token); bytes && !bytes->empty()) {
      config_.whole_words.emplace_back(*std::move(bytes), id);
    }
  }
  return true;
}

// A byte that the vocabulary lacks is handled natively only where the package drops it; other cases depend on more.
bool BpeReader::alphabet(const Json& model) {
  bool complete = true;
  for (u32 byte = 0; byte < 256; ++byte) {
    const auto found = ids_.find(token_of_byte(static_cast<u8>(byte)));
    config_.byte_ids[byte] = found == ids_.end() ? Trie::kNone : found->second;
    complete = complete && found != ids_.end();
  }
  if (complete || (member(model, "unk_token").is_null() && member(model, "byte_fallback") != true)) return true;
  return refuse("model: the vocabulary lacks a byte of the byte-level alphabet");
}

// As "a b" or as ["a", "b"].
bool BpeReader::merges(const Json& at) {
  if (!at.is_array()) return refuse("model: merges is not a list");
  for (const Json& each : at) {
    if (each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string()) {
      if (!merge(each[0].get_ref<const std::string&>(), each[1].get_ref<const std::string&>())) return false;
      continue;
    }
    if (!each.is_string()) return refuse("model: a merge is neither text nor a pair");
    const std::string& line = each.get_ref<const std::string&>();
    if (line.starts_with("#version")) continue;  // a merges.txt begins so; the package skips it wherever it is
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      return refuse("model: merge '" + line + "' is not two tokens");
    }
    if (!merge(line.substr(0, space), line.substr(space + 1))) return false;
  }
  return true;
}

bool BpeReader::merge(const std::string& left, const std::string& right) {
  const auto l = ids_.find(left), r = ids_.find(right), both = ids_.find(left + right);
  for (const auto& found : {l, r, both}) {
    if (found == ids_.end()) return refuse("model: merge '" + left + " " + right + "' is not in the vocabulary");
  }
  config_.merges.push_back({l->second, r->second, both->second});
  return true;
}

bool BpeReader::pre_tokenizer(const Json& at) {
  if (has_type(at, "ByteLevel")) return byte_level(at, /*use_regex=*/true);
  if (!has_type(at, "Sequence")) return refuse("pre_tokenizer: only ByteLevel, or a Sequence with it, is native");
  if (!known_keys(at, "pre_tokenizer", {"type", "pretokenizers"})) return false;
  const Json& all = at["pretokenizers"];
  if (all.is_array() && all.size() == 1) return byte_level(all[0], true);
  if (!all.is_array() || all.size() != 2) return refuse("pre_tokenizer: a Sequence that is not native");
  const bool digits = has_type(all[0], "Digits");
  if (!byte_level(all[1], /*use_regex=*/digits)) return false;
  if (config_.prefix_space != PrefixSpace::kNone) return refuse("pre_tokenizer: add_prefix_space in a Sequence");
  if (!digits) return split_pattern(all[0]);
  config_.rule = WordRule::kGpt2Digits;
  return known_keys(all[0], "pre_tokenizer", {"type", "individual_digits"}) &&
         (all[0]["individual_digits"] == true || refuse("pre_tokenizer: Digits without individual_digits"));
}

bool BpeReader::byte_level(const Json& at, bool use_regex) {
  if (!has_type(at, "ByteLevel")) return refuse("pre_tokenizer: a Sequence that does not end with ByteLevel");
  if (!known_keys(at, "pre_tokenizer", {"type", "add_prefix_space"}, {"trim_offsets", "use_regex"})) return false;
  const Json& stated = member(at, "use_regex");
  if (!at["add_prefix_space"].is_boolean() || (!stated.is_null() && !stated.is_boolean())) {
    return refuse("pre_tokenizer: a flag is not true or false");
  }
  if ((stated.is_null() || stated.get<bool>()) != use_regex) return refuse("pre_tokenizer: ByteLevel's use_regex");
  if (at["add_prefix_space"].get<bool>()) config_.prefix_space = PrefixSpace::kUnlessThere;
  return true;
}

bool BpeReader::split_pattern(const Json& at) {
  if (!has_type(at, "Split")) return refuse("pre_tokenizer: a Sequence that does not begin with Split or Digits");
  if (!known_keys(at, "pre_tokenizer", {"type", "pattern", "behavior", "invert"})) return false;
  if (at["behavior"] != "Isolated" || at["invert"] != false) return refuse("pre_tokenizer: Split that is not Isolated");
  const Json& pattern = at["pattern"];
  if (!pattern.is_object() || pattern.size() != 1 || !member(pattern, "Regex").is_string()) {
    return refuse("pre_tokenizer: Split without a Regex");
  }
  const std::string& regex = pattern["Regex"].get_ref<const std::string&>();
  if (regex != kLlama3Pattern && regex != kQwenPattern) {
    return refuse("pre_tokenizer: only the regular expressions of Llama 3 and Qwen 2 are native");
  }
  config_.rule = regex == kQwenPattern ? WordRule::kQwen : WordRule::kLlama3;
  return true;
}

bool BpeReader::patterns() {
  if (config_.nfc) compose(config_.normalized_tokens);
  return check_patterns(/*space_at_ends=*/true);
}

// SentencePiece's byte-pair encoding: spaces are written as U+2581, and a character that the vocabulary lacks is its
// bytes.
bool BpeReader::spaced(const Json& file) {
  bool replaces = false;
  config_.rule = WordRule::kSpaced;
  if (!envelope(file) || !model(file["model"]) || !spaced_normalizer(member(file, "normalizer"), replaces))
    return false;
  const Json& words = file["pre_tokenizer"];
  if (!words.is_null()) {
    if (replaces || config_.prefix_space != PrefixSpace::kNone)
      return refuse("pre_tokenizer: one behind a normalizer that writes spaces as U+2581");
    if (!metaspace(words)) return false;
  } else if (!replaces) {
    return refuse("normalizer: spaces are not written as U+2581");
  }
  if (!added_tokens(member(file, "added_tokens")) || !check_patterns(/*space_at_ends=*/true) || !surround(file))
    return false;
  if (!config_.normalized_tokens.empty()) return refuse("added_tokens: one is found in normalized text");
  return config_.rule == WordRule::kEachSpace || words_end_at_spaces();
}

bool BpeReader::spaced_normalizer(const Json& at, bool& replaces) {
  if (at.is_null()) return true;
  if (!has_type(at, "Sequence")) return spaced_step(at, replaces);
  if (!known_keys(at, "normalizer", {"type", "normalizers"})) return false;
  if (!at["normalizers"].is_array()) return refuse("normalizer: normalizers is not a list");
  for (const Json& step : at["normalizers"])
    if (!spaced_step(step, replaces)) return false;
  return true;
}

bool BpeReader::spaced_step(const Json& at, bool& replaces) {
  if (has_type(at, "Prepend")) {
    if (!known_keys(at, "normalizer", {"type", "prepend"})) return false;
    if (at["prepend"] != kSpace || replaces || config_.prefix_space != PrefixSpace::kNone)
      return refuse("normalizer: a Prepend that is not native");
    config_.prefix_space = PrefixSpace::kAlways;
    return true;
  }
  if (!has_type(at, "Replace")) return refuse("normalizer: only Prepend and Replace are native with byte_fallback");
  if (!known_keys(at, "normalizer", {"type", "pattern", "content"})) return false;
  const Json& pattern = at["pattern"];
  if (!pattern.is_object() || pattern.size() != 1 || member(pattern, "String") != " " || at["content"] != kSpace)
    return refuse("normalizer: a Replace that does not write spaces as U+2581");
  replaces = true;
  return true;
}

bool BpeReader::metaspace(const Json& at) {
  if (!has_type(at, "Metaspace")) return refuse("pre_tokenizer: only Metaspace is native with byte_fallback");
  if (!known_keys(at, "pre_tokenizer", {"type", "replacement", "prepend_scheme"}, {"split", "add_prefix_space"}))
    return false;
  if (at["replacement"] != kSpace) return refuse("pre_tokenizer: Metaspace that writes spaces as another character");
  if (at.contains("add_prefix_space")) return refuse("pre_tokenizer: Metaspace with add_prefix_space");
  const Json& split = member(at, "split");
  if (!split.is_null() && !split.is_boolean()) return refuse("pre_tokenizer: split is not true or false");
  if (split != false) config_.rule = WordRule::kEachSpace;
  const Json& scheme = at["prepend_scheme"];
  if (scheme == "always") {
    config_.prefix_space = PrefixSpace::kUnlessThere;
  } else if (scheme == "first") {
    config_.prefix_space = PrefixSpace::kFirstUnlessThere;
  } else if (scheme != "never") {
    return refuse("pre_tokenizer: an unknown prepend_scheme");
  }
  return true;
}

// Without all 256 bytes the package falls back to its unknown token, in an order of its own.
bool BpeReader::characters() {
  for (u32 byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    const auto found = ids_.find(name);
    if (found == ids_.end()) return refuse(std::string("model: byte_fallback, and the vocabulary lacks ") + name);
    config_.byte_ids[byte] = found->second;
  }
  for (const auto& [token, id] : ids_) {
    const u8* begin = reinterpret_cast<const u8*>(token.data());
    const u8* const end = begin + token.size();
    if (begin < end && utf8_length(begin, end) == end - begin)
      config_.characters.emplace_back(decode(begin, end).point, id);
  }
  return !config_.characters.empty() || refuse("model: the vocabulary has no character");
}

// Words can be merged alone only if no merge goes over the end of a word: from another character to a space.
bool BpeReader::words_end_at_spaces() {
  std::unordered_map<u32, const std::string*> tokens;
  for (const auto& [token, id] : ids_) tokens.emplace(id, &token);
  for (const Merge& merge : config_.merges) {
    const std::string &left = *tokens[merge.left], &right = *tokens[merge.right];
    if (right.starts_with(kSpace) && !left.ends_with(kSpace))
      return refuse("model: merge '" + left + " " + right + "' goes over the end of a word");
  }
  return true;
}

}  // namespace fastqps::text
