// Byte-pair encoding: split into words by a pre-tokenizer's rule, then merge each word's bytes, or its characters as
// SentencePiece does.
#pragma once
#include <array>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe/merges.h"
#include "text/file_reader.h"
#include "text/spaced/spaced_json.h"
#include "text/spaced/spaced_text.h"
#include "text/trie.h"
#include "text/unicode/normal_form.h"
#include "text/words/word_tokenizer.h"

namespace fastqps::text {

struct BpeConfig : FileConfig {
  std::array<u32, 256> byte_ids{};  // Trie::kNone: the vocabulary lacks the byte, which then vanishes
  // SentencePiece only: ids by character, and U+2581 stands for the space; byte_ids are of characters that have none.
  std::vector<std::pair<u32, u32>> characters;
  std::vector<Merge> merges;
  std::vector<std::pair<std::string, u32>> whole_words;  // bytes of words that are not merged but taken as they are
  u32 vocab_size = 0;                                    // one above the largest id of the vocabulary
  WordRule rule = WordRule::kGpt2;
  bool prefix_space = false;  // a space is put in front of a text that has none
  bool nfc = false;
  SpacedConfig spaced;  // of SentencePiece
};

// Everything that does not change: shared by the tokenizers of all threads.
struct BpeModel {
  explicit BpeModel(BpeConfig config);

  static constexpr u32 kNear = 0x800;
  u32 id_of(u32 character) const {
    if (character < kNear) return near_characters[character];
    const auto found = far_characters.find(character);
    return found == far_characters.end() ? Trie::kNone : found->second;
  }

  AddedTokens raw, normalized;
  std::array<u32, 256> byte_ids;
  MergeTable merges;
  Trie whole_words;
  bool has_whole_words;
  Surround around;
  u32 vocab_size;
  WordRule rule;
  bool prefix_space;
  bool by_character;                            // SentencePiece's
  SpacedConfig spaced;                          // likewise
  std::vector<u32> near_characters;             // ids of those below kNear, Trie::kNone: it has none
  std::unordered_map<u32, u32> far_characters;  // of the others
  const NormalForm* nfc;                        // or null
};

class Bpe final : public WordTokenizer {
 public:
  explicit Bpe(std::shared_ptr<const BpeModel> model);

  u32 vocab_size() const override { return model_->vocab_size; }
  const std::string& family() const override;
  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<Bpe>(model_); }

 private:
  void run_between(std::string_view text, bool first, bool ascii, Ids& ids) override;
  void run_spaced(std::string_view text, bool first, Ids& ids);
  void run_stretch(std::string_view text, Ids& ids);
  u32 split(Word word) override;
  u32 characters(Word word);

  std::shared_ptr<const BpeModel> model_;
  Merger merger_;
  SpacedText spaced_;
  NormalForm::Scratch scratch_;
  std::string normal_, prefixed_;  // text that is not as it came
};

// A tokenizer.json to a BpeConfig.
class BpeReader : private SpacedReader {
 public:
  BpeReader(BpeConfig& config, std::string& why) : SpacedReader(config, config.spaced, why), config_(config) {}
  // False, with the reason in `why`, when the native tokenizer would not give the ids of the `tokenizers` package.
  bool read(const nlohmann::json& file);

 private:
  bool model(const Json& at);
  bool alphabet(const Json& model);
  bool merges(const Json& at);
  bool merge(const std::string& left, const std::string& right);
  bool pre_tokenizer(const Json& at);
  bool byte_level(const Json& at, bool use_regex);
  bool split_pattern(const Json& at);
  bool patterns();
  // SentencePiece's.
  bool by_character(const Json& file);
  bool characters();
  bool words_end_at_spaces();

  BpeConfig& config_;
};

}  // namespace fastqps::text
