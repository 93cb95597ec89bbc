// A tokenizer.json to a BpeConfig.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/bpe/bpe.h"
#include "text/file_reader.h"

namespace fastqps::text {

class BpeReader : private FileReader {
 public:
  BpeReader(BpeConfig& config, std::string& why) : FileReader(config, why), config_(config) {}
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
  bool spaced(const Json& file);
  bool spaced_normalizer(const Json& at, bool& replaces);
  bool spaced_step(const Json& at, bool& replaces);
  bool metaspace(const Json& at);
  bool characters();
  bool words_end_at_spaces();

  BpeConfig& config_;
};

}  // namespace fastqps::text
