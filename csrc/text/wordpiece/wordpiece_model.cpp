#include <algorithm>

#include "contract/utf8.h"
#include "text/wordpiece/wordpiece.h"

namespace fastqps::text {
namespace {

AsciiRules ascii_rules(bool fold_case, const AddedTokens& raw) {
  AsciiRules rules;
  rules.fold_case = fold_case;
  for (u32 byte = 0; byte < 256; ++byte) rules.lower[byte] = static_cast<u8>(byte);
  const auto fill = [&](u32 first, u32 last, ByteClass c) {
    for (u32 byte = first; byte <= last; ++byte) rules.classes[byte] = c;
  };
  fill(0x21, 0x7E, ByteClass::kPunctuation);
  fill('0', '9', ByteClass::kLetter);
  fill('a', 'z', ByteClass::kLetter);
  fill('A', 'Z', ByteClass::kLetter);
  for (u32 byte : {' ', '\t', '\n', '\r'}) rules.classes[byte] = ByteClass::kSpace;
  for (u32 byte = 'A'; fold_case && byte <= 'Z'; ++byte) rules.lower[byte] = static_cast<u8>(byte | 0x20);
  for (u32 byte = 0; byte < 0x80; ++byte) {
    if (!raw.begins(static_cast<u8>(byte)) || rules.classes[byte] == ByteClass::kOther) continue;
    rules.classes[byte] = ByteClass::kOther;
    rules.use_simd = rules.use_simd && rules.n_triggers < rules.triggers.size();
    if (rules.use_simd) rules.triggers[rules.n_triggers++] = static_cast<u8>(byte);
  }
  return rules;
}

u32 walk(const Trie& trie, const std::string& prefix) {
  u32 node = Trie::kRoot;
  for (char c : prefix) {
    if (node != Trie::kNone) node = trie.step(node, static_cast<u8>(c));
  }
  return node;
}

u32 largest_id(const WordPieceConfig& config) {
  u32 largest = config.largest_id();
  for (const auto& [key, id] : config.vocab) largest = std::max(largest, id);
  return largest;
}

}  // namespace

WordPieceModel::WordPieceModel(WordPieceConfig config)
    : chars(CharTable::of(config.flags)),
      flags(config.flags),
      vocab(config.vocab),
      raw(config.raw_tokens),
      normalized(config.normalized_tokens),
      ascii(ascii_rules(config.flags.lowercase, raw)),
      around(config.around),
      continuing_node(walk(vocab, config.continuing_prefix)),
      unk_id(config.unk_id),
      max_chars(config.max_chars_per_word),
      vocab_size(largest_id(config) + 1),
      prefix_chars(count_chars(config.continuing_prefix)),
      words_may_have_nul(!config.flags.clean_text) {}

u32 WordPieceModel::split(const u8* word, u32 n_bytes, u32 n_chars, u32* ids, u32* ends) const {
  u32 n = 0;
  for (u32 pos = 0; pos < n_bytes && n_chars <= max_chars;) {
    u32 node = pos ? continuing_node : Trie::kRoot;
    u32 id = Trie::kNone, next = pos;
    for (u32 i = pos; i < n_bytes && node != Trie::kNone; ++i) {
      node = vocab.step(node, word[i]);
      if (node == Trie::kNone || vocab.value(node) == Trie::kNone) continue;
      id = vocab.value(node);
      next = i + 1;
    }
    if (id == Trie::kNone) break;
    if (ends) ends[n] = next;
    ids[n++] = id;
    pos = next;
    if (pos == n_bytes) return n;
  }
  ids[0] = unk_id;
  if (ends) ends[0] = n_bytes;
  return 1;
}

}  // namespace fastqps::text
