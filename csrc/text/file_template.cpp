// The part of FileReader that reads which special tokens go around a text and around a pair.
#include <nlohmann/json.hpp>

#include "text/file_reader.h"

namespace fastqps::text {
namespace {

using Json = nlohmann::json;

void append(std::vector<u32>& to, const std::vector<u32>& ids) { to.insert(to.end(), ids.begin(), ids.end()); }

}  // namespace

bool FileReader::post_processor(const Json& at) {
  if (at.is_null() || has_type(at, "ByteLevel")) {  // nothing is added; a pair's second text still has type id 1
    common_.around.special.second_type_id = 1;
    return at.is_null() ||
           known_keys(at, "post_processor", {"type"}, {"add_prefix_space", "trim_offsets", "use_regex"});
  }
  if (has_type(at, "Sequence")) return sequence(at);
  if (has_type(at, "BertProcessing")) return bert_processing(at, /*roberta=*/false);
  if (has_type(at, "RobertaProcessing")) return bert_processing(at, /*roberta=*/true);
  if (has_type(at, "TemplateProcessing")) return template_processing(at);
  return refuse("post_processor: only BertProcessing, RobertaProcessing, TemplateProcessing and ByteLevel are native");
}

// ByteLevel here only moves offsets, so one other processor among such is as good as alone.
bool FileReader::sequence(const Json& at) {
  if (!known_keys(at, "post_processor", {"type", "processors"})) return false;
  if (!at["processors"].is_array()) return refuse("post_processor: processors is not a list");
  const Json byte_level = {{"type", "ByteLevel"}};
  const Json* chosen = &byte_level;
  for (const Json& each : at["processors"]) {
    if (has_type(each, "ByteLevel")) {
      if (!post_processor(each)) return false;
    } else if (chosen != &byte_level || has_type(each, "Sequence")) {
      return refuse("post_processor: a Sequence with more than one that adds tokens");
    } else {
      chosen = &each;
    }
  }
  common_.around.special = {};
  return post_processor(*chosen);
}

bool FileReader::bert_processing(const Json& at, bool roberta) {
  if (!known_keys(at, "post_processor", {"type", "sep", "cls"}, {"trim_offsets", "add_prefix_space"})) return false;
  const auto named_id = [](const Json& pair) {
    return pair.is_array() && pair.size() == 2 && pair[0].is_string() && is_u32(pair[1]);
  };
  if (!named_id(at["sep"]) || !named_id(at["cls"])) return refuse("post_processor: sep or cls is not [name, id]");
  const u32 sep = at["sep"][1].get<u32>(), cls = at["cls"][1].get<u32>();
  Template& t = common_.around.special;
  if (roberta) {
    t = {{cls}, {sep}, {cls}, {sep, sep}, {sep}, 2, 0};
  } else {
    t = {{cls}, {sep}, {cls}, {sep}, {sep}, 1, 1};
  }
  return true;
}

bool FileReader::template_processing(const Json& at) {
  if (!known_keys(at, "post_processor", {"type", "single", "pair", "special_tokens"})) return false;
  if (!at["single"].is_array() || !at["pair"].is_array() || !at["special_tokens"].is_object()) {
    return refuse("post_processor: wrong type of a value");
  }
  return single_template(at["single"], at["special_tokens"]) && pair_template(at["pair"], at["special_tokens"]);
}

// One piece of a template: a sequence ('A' or 'B') or ids of special tokens (then `sequence` is 0).
bool FileReader::piece(const Json& at, const Json& tokens, char& sequence, std::vector<u32>& ids, u32& type_id) {
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

bool FileReader::single_template(const Json& pieces, const Json& tokens) {
  bool seen = false;
  for (const Json& at : pieces) {
    char sequence;
    std::vector<u32> ids;
    u32 type_id;
    if (!piece(at, tokens, sequence, ids, type_id)) return false;
    if (type_id != 0) return refuse("post_processor: a type id other than 0 for a single text");
    if (sequence && (sequence != 'A' || seen)) return refuse("post_processor: the single template is not one A");
    append(seen ? common_.around.special.single_tail : common_.around.special.single_head, ids);
    seen = seen || sequence;
  }
  return seen || refuse("post_processor: the single template has no A");
}

bool FileReader::pair_template(const Json& pieces, const Json& tokens) {
  Template& t = common_.around.special;
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
