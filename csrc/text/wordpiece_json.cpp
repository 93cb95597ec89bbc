#include "text/wordpiece_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace fastqps::text {
namespace {

using Json = nlohmann::json;

constexpr u32 kMaxCharsPerWord = 1000;  // bounds a tokenizer's buffers; every known file says 100
constexpr std::size_t kMaxPatternBytes = 1000;

const Json& member(const Json& at, const char* key) {
  static const Json null;
  const auto found = at.find(key);
  return found == at.end() ? null : *found;
}

bool is_u32(const Json& at) { return at.is_number_unsigned() && at.get<u64>() < Trie::kNone; }

bool has_type(const Json& at, const char* type) {
  return at.is_object() && member(at, "type").is_string() && member(at, "type").get_ref<const std::string&>() == type;
}

// The white space that `\s` and the pre-tokenizer know, at either end.
bool touches_space(const std::string& text) {
  const u8* p = reinterpret_cast<const u8*>(text.data());
  const u8* end = p + text.size();
  return CharTable::plain_class(decode(p, end).point) == CharClass::kSpace ||
         CharTable::plain_class(decode_before(p, end)) == CharClass::kSpace;
}

}  // namespace

bool WordPieceReader::refuse(std::string reason) {
  why_ = std::move(reason);
  return false;
}

bool WordPieceReader::known_keys(const Json& at, const char* what, std::initializer_list<const char*> required,
                                 std::initializer_list<const char*> optional) {
  if (!at.is_object()) return refuse(std::string(what) + ": not an object");
  for (const char* key : required) {
    if (!at.contains(key)) return refuse(std::string(what) + ": no " + key);
  }
  for (const auto& item : at.items()) {
    const auto same = [&](const char* key) { return item.key() == key; };
    if (std::none_of(required.begin(), required.end(), same) && std::none_of(optional.begin(), optional.end(), same)) {
      return refuse(std::string(what) + ": unknown key " + item.key());
    }
  }
  return true;
}

bool WordPieceReader::read(const Json& file) {
  if (!known_keys(file, "tokenizer.json", {"model", "pre_tokenizer"},
                  {"version", "truncation", "padding", "added_tokens", "normalizer", "post_processor", "decoder"})) {
    return false;
  }
  if (file.contains("version") && file["version"] != "1.0") return refuse("version: not 1.0");
  return model(file["model"]) && normalizer(member(file, "normalizer")) && pre_tokenizer(file["pre_tokenizer"]) &&
         added_tokens(member(file, "added_tokens")) && post_processor(member(file, "post_processor")) &&
         truncation(member(file, "truncation"));
}

bool WordPieceReader::model(const Json& at) {
  if (at.is_object() && !has_type(at, "WordPiece")) {
    const Json& type = member(at, "type");
    return refuse("model: " + (type.is_string() ? type.get<std::string>() : std::string("no type")) +
                  " is not native, only WordPiece is");
  }
  if (!known_keys(at, "model",
                  {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"})) {
    return false;
  }
  const Json& prefix = at["continuing_subword_prefix"];
  const Json& unk = at["unk_token"];
  const Json& max_chars = at["max_input_chars_per_word"];
  if (!prefix.is_string() || !unk.is_string() || !at["vocab"].is_object())
    return refuse("model: wrong type of a value");
  if (!is_u32(max_chars) || max_chars.get<u32>() > kMaxCharsPerWord) {
    return refuse("model: max_input_chars_per_word above " + std::to_string(kMaxCharsPerWord));
  }
  for (const auto& item : at["vocab"].items()) {
    if (!is_u32(item.value())) return refuse("model: an id is not a 32-bit number");
    ids_.emplace(item.key(), item.value().get<u32>());
    if (!item.key().empty()) config_.vocab.emplace_back(item.key(), item.value().get<u32>());
  }
  const auto unknown = ids_.find(unk.get_ref<const std::string&>());
  if (unknown == ids_.end()) return refuse("model: unk_token is not in the vocabulary");
  config_.unk_id = unknown->second;
  config_.continuing_prefix = prefix.get<std::string>();
  config_.max_chars_per_word = max_chars.get<u32>();
  return true;
}

bool WordPieceReader::normalizer(const Json& at) {
  if (at.is_null()) {
    config_.flags = {false, false, false, false};
    return true;
  }
  if (!has_type(at, "BertNormalizer")) return refuse("normalizer: only BertNormalizer is native");
  if (!known_keys(at, "normalizer", {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"})) {
    return false;
  }
  const Json& strip = at["strip_accents"];
  for (const char* key : {"clean_text", "handle_chinese_chars", "lowercase"}) {
    if (!at[key].is_boolean()) return refuse(std::string("normalizer: ") + key + " is not true or false");
  }
  if (!strip.is_null() && !strip.is_boolean()) return refuse("normalizer: strip_accents is not true, false or null");
  NormalizerFlags& flags = config_.flags;
  flags.clean_text = at["clean_text"].get<bool>();
  flags.handle_chinese_chars = at["handle_chinese_chars"].get<bool>();
  flags.lowercase = at["lowercase"].get<bool>();
  flags.strip_accents = strip.is_null() ? flags.lowercase : strip.get<bool>();
  return true;
}

bool WordPieceReader::pre_tokenizer(const Json& at) {
  if (!has_type(at, "BertPreTokenizer")) return refuse("pre_tokenizer: only BertPreTokenizer is native");
  return known_keys(at, "pre_tokenizer", {"type"});
}

// Ids are given as the package gives them: the vocabulary's, else one after the other from the vocabulary's size on.
bool WordPieceReader::added_tokens(const Json& at) {
  if (at.is_null()) return true;
  if (!at.is_array()) return refuse("added_tokens: not a list");
  u32 next_id = static_cast<u32>(ids_.size());
  for (const Json& token : at) {
    if (!added_token(token, next_id)) return false;
  }
  return check_patterns();
}

bool WordPieceReader::added_token(const Json& at, u32& next_id) {
  if (!known_keys(at, "added_tokens", {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"})) {
    return false;
  }
  for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
    if (!at[key].is_boolean()) return refuse(std::string("added_tokens: ") + key + " is not true or false");
  }
  if (!at["content"].is_string() || !is_u32(at["id"])) return refuse("added_tokens: wrong type of a value");
  const auto [known, fresh] = ids_.try_emplace(at["content"].get<std::string>(), next_id);
  next_id += fresh;
  if (known->second != at["id"].get<u32>()) {
    return refuse("added_tokens: " + known->first + " has another id than the package would give it");
  }
  auto& tokens = at["normalized"].get<bool>() ? config_.normalized_tokens : config_.raw_tokens;
  tokens.push_back({known->first, known->second, at["single_word"].get<bool>()});
  return true;
}

bool WordPieceReader::check_patterns() {
  if (!config_.normalized_tokens.empty()) {
    const CharTable table(config_.flags);
    for (AddedToken& token : config_.normalized_tokens) token.pattern = normalize_text(table, token.pattern);
  }
  std::unordered_set<u32> ids;
  for (const auto* tokens : {&config_.raw_tokens, &config_.normalized_tokens}) {
    std::unordered_set<std::string> patterns;
    for (const AddedToken& token : *tokens) {
      if (token.pattern.empty() || token.pattern.size() > kMaxPatternBytes || touches_space(token.pattern)) {
        return refuse("added_tokens: one is empty, too long, or has white space at an end");
      }
      if (!patterns.insert(token.pattern).second || !ids.insert(token.id).second) {
        return refuse("added_tokens: " + token.pattern + " is there twice");
      }
    }
  }
  return true;
}

bool WordPieceReader::truncation(const Json& at) {
  if (at.is_null()) return true;
  if (!known_keys(at, "truncation", {"max_length", "strategy", "stride"}, {"direction"})) return false;
  if (at["strategy"] != "LongestFirst") return refuse("truncation: only LongestFirst is native");
  if (at.contains("direction") && at["direction"] != "Right") return refuse("truncation: only Right is native");
  if (!is_u32(at["max_length"]) || !is_u32(at["stride"])) return refuse("truncation: wrong type of a value");
  const Template& t = config_.special;
  const std::size_t n_special = std::max(t.single_head.size() + t.single_tail.size(),
                                         t.pair_head.size() + t.pair_middle.size() + t.pair_tail.size());
  config_.truncation = FileTruncation{at["max_length"].get<u32>(), at["stride"].get<u32>()};
  if (config_.truncation->max_tokens <= n_special + config_.truncation->stride) {
    return refuse("truncation: max_length leaves no room");
  }
  return true;
}

}  // namespace fastqps::text
