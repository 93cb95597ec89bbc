#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "contract/utf8.h"
#include "text/bpe/bpe.h"
#include "text/byte_tokens.h"

namespace fastqps::text {

bool BpeReader::read(const Json& file) {
  if (file.contains("model") && file["model"].is_object() && member(file["model"], "byte_fallback") == true &&
      is_spaced(member(file, "pre_tokenizer")))
    return by_character(file);
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
  if (config_.prefix_space) return refuse("pre_tokenizer: add_prefix_space in a Sequence");
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
  config_.prefix_space = at["add_prefix_space"].get<bool>();
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
bool BpeReader::by_character(const Json& file) {
  config_.rule = WordRule::kSpaced;
  if (!envelope(file) || !model(file["model"]) || !added_tokens(member(file, "added_tokens")) || !spaced(file) ||
      !check_patterns(/*space_at_ends=*/true) || !surround(file))
    return false;
  if (config_.spaced.split) {
    config_.rule = WordRule::kEachSpace;
  } else if (!words_end_at_spaces()) {
    config_.rule = WordRule::kWhole;
  }
  return true;
}

// Without all 256 bytes the package falls back to its unknown token, in an order of its own.
bool BpeReader::characters() {
  for (u32 byte = 0; byte < 256; ++byte) {
    const std::string name = piece_of_byte(static_cast<u8>(byte));
    const auto found = ids_.find(name);
    if (found == ids_.end()) return refuse("model: byte_fallback, and the vocabulary lacks " + name);
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
  return std::none_of(config_.merges.begin(), config_.merges.end(), [&](const Merge& merge) {
    return tokens[merge.right]->starts_with(kSpelledSpace) && !tokens[merge.left]->ends_with(kSpelledSpace);
  });
}

}  // namespace fastqps::text
