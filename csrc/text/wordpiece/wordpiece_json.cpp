#include <nlohmann/json.hpp>

#include "text/wordpiece/wordpiece.h"

namespace fastqps::text {
namespace {

constexpr u32 kMaxCharsPerWord = 1000;  // bounds a tokenizer's buffers; every known file says 100

}  // namespace

bool WordPieceReader::read(const Json& file) {
  return envelope(file) && model(file["model"]) && normalizer(member(file, "normalizer")) &&
         pre_tokenizer(file["pre_tokenizer"]) && added_tokens(member(file, "added_tokens")) && patterns() &&
         surround(file);
}

bool WordPieceReader::model(const Json& at) {
  if (!known_keys(at, "model",
                  {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"})) {
    return false;
  }
  const Json& prefix = at["continuing_subword_prefix"];
  const Json& unk = at["unk_token"];
  const Json& max_chars = at["max_input_chars_per_word"];
  if (!prefix.is_string() || !unk.is_string()) return refuse("model: wrong type of a value");
  if (!is_u32(max_chars) || max_chars.get<u32>() > kMaxCharsPerWord) {
    return refuse("model: max_input_chars_per_word above " + std::to_string(kMaxCharsPerWord));
  }
  if (!vocabulary(at["vocab"])) return false;
  for (const auto& [word, id] : ids_) {
    if (!word.empty()) config_.vocab.emplace_back(word, id);
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

bool WordPieceReader::patterns() {
  if (config_.normalized_tokens.empty()) return check_patterns(/*space_at_ends=*/false);
  const CharTable& table = CharTable::of(config_.flags);
  for (AddedToken& token : config_.normalized_tokens) token.pattern = normalize_text(table, token.pattern);
  return check_patterns(false);
}

}  // namespace fastqps::text
