// The part of WordPieceReader that reads which special tokens go around a text and around a pair.
#include <nlohmann/json.hpp>

#include "text/wordpiece_json.h"

namespace fastqps::text {
namespace {

using Json = nlohmann::json;

bool is_u32(const Json& at) { return at.is_number_unsigned() && at.get<u64>() < Trie::kNone; }
bool is_named_id(const Json& at) { return at.is_array() && at.size() == 2 && at[0].is_string() && is_u32(at[1]); }

void append(std::vector<u32>& to, const std::vector<u32>& ids) { to.insert(to.end(), ids.begin(), ids.end()); }

}  // namespace

bool WordPieceReader::post_processor(const Json& at) {
  if (at.is_null()) {  // nothing is added; a pair's second text still has type id 1
    config_.special.second_type_id = 1;
    return true;
  }
  const Json& type = at.is_object() && at.contains("type") ? at["type"] : at;
  if (type == "BertProcessing") return bert_processing(at);
  if (type == "TemplateProcessing") return template_processing(at);
  return refuse("post_processor: only BertProcessing and TemplateProcessing are native");
}

bool WordPieceReader::bert_processing(const Json& at) {
  if (!known_keys(at, "post_processor", {"type", "sep", "cls"})) return false;
  if (!is_named_id(at["sep"]) || !is_named_id(at["cls"])) return refuse("post_processor: sep or cls is not [name, id]");
  const u32 sep = at["sep"][1].get<u32>(), cls = at["cls"][1].get<u32>();
  config_.special = {{cls}, {sep}, {cls}, {sep}, {sep}, 1, 1};
  return true;
}

bool WordPieceReader::template_processing(const Json& at) {
  if (!known_keys(at, "post_processor", {"type", "single", "pair", "special_tokens"})) return false;
  if (!at["single"].is_array() || !at["pair"].is_array() || !at["special_tokens"].is_object()) {
    return refuse("post_processor: wrong type of a value");
  }
  return single_template(at["single"], at["special_tokens"]) && pair_template(at["pair"], at["special_tokens"]);
}

// One piece of a template: a sequence ('A' or 'B') or ids of special tokens (then `sequence` is 0).
bool WordPieceReader::piece(const Json& at, const Json& tokens, char& sequence, std::vector<u32>& ids, u32& type_id) {
  ids.clear();
  sequence = 0;
  if (!at.is_object() || at.size() != 1) return refuse("post_processor: a piece is not understood");
  const std::string& kind = at.begin().key();
  const Json& value = at.begin().value();
  if (!known_keys(value, "post_processor", {"id", "type_id"})) return false;
  if (!value["id"].is_string() || !is_u32(value["type_id"])) return refuse("post_processor: wrong type of a value");
  type_id = value["type_id"].get<u32>();
  const std::string& name = value["id"].get_ref<const std::string&>();
  if (kind == "Sequence" && (name == "A" || name == "B")) {
    sequence = name[0];
    return true;
  }
  if (kind != "SpecialToken" || !tokens.contains(name)) return refuse("post_processor: a piece is not understood");
  if (!known_keys(tokens[name], "special_tokens", {"id", "ids", "tokens"})) return false;
  if (!tokens[name]["ids"].is_array()) return refuse("special_tokens: ids is not a list");
  for (const Json& id : tokens[name]["ids"]) {
    if (!is_u32(id)) return refuse("special_tokens: an id is not a 32-bit number");
    ids.push_back(id.get<u32>());
  }
  return true;
}

bool WordPieceReader::single_template(const Json& pieces, const Json& tokens) {
  bool seen = false;
  for (const Json& at : pieces) {
    char sequence;
    std::vector<u32> ids;
    u32 type_id;
    if (!piece(at, tokens, sequence, ids, type_id)) return false;
    if (type_id != 0) return refuse("post_processor: a type id other than 0 for a single text");
    if (sequence && (sequence != 'A' || seen)) return refuse("post_processor: the single template is not one A");
    append(seen ? config_.special.single_tail : config_.special.single_head, ids);
    seen = seen || sequence;
  }
  return seen || refuse("post_processor: the single template has no A");
}

bool WordPieceReader::pair_template(const Json& pieces, const Json& tokens) {
  Template& t = config_.special;
  u32 n_sequences = 0;
  for (const Json& at : pieces) {
    char sequence;
    std::vector<u32> ids;
    u32 type_id;
    if (!piece(at, tokens, sequence, ids, type_id)) return false;
    // Type ids have to be 0 up to somewhere between the texts, and one other value from there on.
    const bool in_first = n_sequences == 0;
    const bool may_change = n_sequences == 1 && t.second_type_id == 0;
    if (type_id != (in_first ? 0 : t.second_type_id) && !may_change) {
      return refuse("post_processor: the pair's type ids are not two runs");
    }
    if (!in_first) t.second_type_id = type_id;
    if (sequence) {
      if (n_sequences == 2 || sequence != "AB"[n_sequences]) return refuse("post_processor: the pair is not A, then B");
      ++n_sequences;
      continue;
    }
    if (n_sequences == 1 && type_id == 0) t.n_middle_first += static_cast<u32>(ids.size());
    append(n_sequences == 0 ? t.pair_head : n_sequences == 1 ? t.pair_middle : t.pair_tail, ids);
  }
  return n_sequences == 2 || refuse("post_processor: the pair template has no A and B");
}

}  // namespace fastqps::text
