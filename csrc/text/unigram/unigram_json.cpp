#include "text/unigram/unigram_json.h"

#include <nlohmann/json.hpp>

#include "text/spaced/byte_pieces.h"

namespace fastqps::text {

bool UnigramReader::read(const Json& file) {
  return envelope(file) && model(file["model"]) && added_tokens(member(file, "added_tokens")) && spaced(file) &&
         check_patterns(/*space_at_ends=*/true) && surround(file);
}

bool UnigramReader::model(const Json& at) {
  if (!known_keys(at, "model", {"type", "vocab"}, {"unk_id", "byte_fallback"})) return false;
  const Json &unknown = member(at, "unk_id"), &fallback = member(at, "byte_fallback");
  if (!fallback.is_null() && !fallback.is_boolean()) return refuse("model: byte_fallback is not true or false");
  if (!scored_vocabulary(at["vocab"])) return false;
  if (unknown.is_null()) return refuse("model: no unk_id, without which the package fails at a character it lacks");
  if (!is_u32(unknown) || unknown.get<u64>() >= scored_.size()) return refuse("model: unk_id is not in the vocabulary");
  config_.unknown_id = unknown.get<u32>();
  config_.byte_fallback = fallback == true;
  pieces();
  return true;
}

void UnigramReader::pieces() {
  for (const auto& [piece, score] : scored_) config_.scores.push_back(score);
  for (const auto& [piece, id] : ids_) {
    const bool matches = !piece.empty() && piece.find(' ') == std::string::npos;
    if (matches) config_.pieces.emplace_back(with_spaces(piece), id);
  }
  for (u32 byte = 0; byte < 256; ++byte) {
    const auto found = ids_.find(piece_of_byte(static_cast<u8>(byte)));
    config_.byte_ids[byte] = found == ids_.end() ? Trie::kNone : found->second;
  }
}

}  // namespace fastqps::text
