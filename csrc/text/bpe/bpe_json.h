// A tokenizer.json to a BpeConfig.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/bpe/bpe.h"
#include "text/spaced/spaced_json.h"

namespace fastqps::text {

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
