#include "text/file_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "contract/utf8.h"
#include "text/unicode/char_table.h"
#include "text/unicode/normal_form.h"

namespace fastqps::text {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxPatternBytes = 1000;

bool is_space(u32 point) { return CharTable::plain_class(point) == CharClass::kSpace; }

bool begins_with_space(const std::string& text) {
  const u8* p = utf8_bytes(text);
  return is_space(decode(p, p + text.size()).point);
}

bool ends_with_space(const std::string& text) {
  const u8* p = utf8_bytes(text);
  return is_space(decode_before(p, p + text.size()));
}

}  // namespace

u32 FileConfig::largest_id() const {
  u32 largest = around.special.largest_id();
  for (const auto* tokens : {&raw_tokens, &normalized_tokens})
    for (const AddedToken& token : *tokens) largest = std::max(largest, token.id);
  return largest;
}

const Json& FileReader::member(const Json& at, const char* key) {
  static const Json null;
  const auto found = at.find(key);
  return found == at.end() ? null : *found;
}

bool FileReader::is_u32(const Json& at) { return at.is_number_unsigned() && at.get<u64>() < Trie::kNone; }

bool FileReader::has_type(const Json& at, const char* type) {
  return at.is_object() && member(at, "type").is_string() && member(at, "type").get_ref<const std::string&>() == type;
}

bool FileReader::refuse(std::string reason) {
  why_ = std::move(reason);
  return false;
}

bool FileReader::known_keys(const Json& at, const char* what, std::initializer_list<const char*> required,
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

bool FileReader::envelope(const Json& file) {
  if (!known_keys(file, "tokenizer.json", {"model", "pre_tokenizer"},
                  {"version", "truncation", "padding", "added_tokens", "normalizer", "post_processor", "decoder"})) {
    return false;
  }
  return !file.contains("version") || file["version"] == "1.0" || refuse("version: not 1.0");
}

bool FileReader::vocabulary(const Json& at) {
  if (!at.is_object()) return refuse("model: the vocabulary is not an object");
  std::unordered_set<u32> seen;
  for (const auto& item : at.items()) {
    if (!is_u32(item.value())) return refuse("model: an id is not a 32-bit number");
    const u32 id = item.value().get<u32>();
    if (!seen.insert(id).second) return refuse("model: id " + std::to_string(id) + " is there twice");
    ids_.emplace(item.key(), id);
  }
  vocab_size_ = static_cast<u32>(ids_.size());
  return true;
}

bool FileReader::scored_vocabulary(const Json& at) {
  if (!at.is_array()) return refuse("model: the vocabulary is not a list");
  for (const Json& each : at) {
    if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_number())
      return refuse("model: an entry of the vocabulary is not a piece and its score");
    ids_.insert_or_assign(each[0].get<std::string>(), static_cast<u32>(scored_.size()));
    scored_.emplace_back(each[0].get<std::string>(), each[1].get<double>());
  }
  vocab_size_ = static_cast<u32>(scored_.size());
  return true;
}

// Ids are given as the package gives them: the vocabulary's, else one after the other from the vocabulary's size on.
bool FileReader::added_tokens(const Json& at) {
  if (at.is_null()) return true;
  if (!at.is_array()) return refuse("added_tokens: not a list");
  return std::all_of(at.begin(), at.end(), [&](const Json& token) { return added_token(token); });
}

bool FileReader::added_token(const Json& at) {
  if (!known_keys(at, "added_tokens", {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"})) {
    return false;
  }
  const auto flag = [&](const char* key) { return at[key].get<bool>(); };
  for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
    if (!at[key].is_boolean()) return refuse(std::string("added_tokens: ") + key + " is not true or false");
  }
  if (!at["content"].is_string() || !is_u32(at["id"])) return refuse("added_tokens: wrong type of a value");
  const u32 next_id = std::max(vocab_size_, after_added_);
  const auto [known, fresh] = ids_.try_emplace(at["content"].get<std::string>(), next_id);
  if (known->second != at["id"].get<u32>()) {
    return refuse("added_tokens: " + known->first + " has another id than the package would give it");
  }
  after_added_ = std::max(after_added_, known->second + 1);
  auto& tokens = flag("normalized") ? common_.normalized_tokens : common_.raw_tokens;
  tokens.push_back({known->first, known->second, flag("single_word"), flag("lstrip"), flag("rstrip"), flag("special")});
  return true;
}

// White space at a pattern's ends: a native family may not expect it, and behind a token that swallows the space to its
// right the package's own matches would overlap.
bool FileReader::check_patterns(bool space_at_ends) {
  std::unordered_set<u32> ids;
  bool swallows = false, begins = false;
  for (const auto* tokens : {&common_.raw_tokens, &common_.normalized_tokens}) {
    std::unordered_set<std::string> patterns;
    for (const AddedToken& token : *tokens) {
      const std::string& pattern = token.pattern;
      if (pattern.empty() || pattern.size() > kMaxPatternBytes) return refuse("added_tokens: one is empty or too long");
      begins = begins || begins_with_space(pattern);
      swallows = swallows || token.rstrip;
      if (!space_at_ends && (begins || ends_with_space(pattern))) {
        return refuse("added_tokens: one has white space at an end");
      }
      if (!patterns.insert(pattern).second || !ids.insert(token.id).second) {
        return refuse("added_tokens: " + pattern + " is there twice");
      }
    }
  }
  return !(swallows && begins) || refuse("added_tokens: one begins with white space and one has rstrip");
}

bool FileReader::nfc_normalizer(const Json& at, bool& nfc) {
  if (at.is_null()) return true;
  if (has_type(at, "NFC")) {
    nfc = true;
    return known_keys(at, "normalizer", {"type"});
  }
  if (has_type(at, "Sequence") && member(at, "normalizers").is_array()) {
    if (!known_keys(at, "normalizer", {"type", "normalizers"})) return false;
    const Json& all = at["normalizers"];
    return std::all_of(all.begin(), all.end(), [&](const Json& each) { return nfc_normalizer(each, nfc); });
  }
  return refuse("normalizer: only NFC is native");
}

void FileReader::compose(std::vector<AddedToken>& tokens) {
  NormalForm::Scratch scratch;
  for (AddedToken& token : tokens) NormalForm::c().normalize(std::string(token.pattern), scratch, token.pattern);
}

bool FileReader::surround(const Json& file) {
  return post_processor(member(file, "post_processor")) && truncation(member(file, "truncation"));
}

bool FileReader::truncation(const Json& at) {
  if (at.is_null()) return true;
  if (!known_keys(at, "truncation", {"max_length", "strategy", "stride"}, {"direction"})) return false;
  if (at["strategy"] != "LongestFirst") return refuse("truncation: only LongestFirst is native");
  const Json& direction = member(at, "direction");
  if (!direction.is_null() && direction != "Right" && direction != "Left") {
    return refuse("truncation: the direction is neither Left nor Right");
  }
  common_.around.cut_left = direction == "Left";
  if (!is_u32(at["max_length"]) || !is_u32(at["stride"])) return refuse("truncation: wrong type of a value");
  const Template& t = common_.around.special;
  const std::size_t n_special = std::max(t.single_head.size() + t.single_tail.size(),
                                         t.pair_head.size() + t.pair_middle.size() + t.pair_tail.size());
  common_.around.truncation = FileTruncation{at["max_length"].get<u32>(), at["stride"].get<u32>()};
  if (common_.around.truncation->max_tokens <= n_special + common_.around.truncation->stride) {
    return refuse("truncation: max_length leaves no room");
  }
  return true;
}

}  // namespace fastqps::text
