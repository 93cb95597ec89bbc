// A tokenizer.json to a WordPieceConfig.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/file_reader.h"
#include "text/wordpiece/wordpiece.h"

namespace fastqps::text {

class WordPieceReader : private FileReader {
 public:
  WordPieceReader(WordPieceConfig& config, std::string& why) : FileReader(config, why), config_(config) {}
  // False, with the reason in `why`, when the native tokenizer would not give the ids of the `tokenizers` package.
  bool read(const nlohmann::json& file);

 private:
  bool model(const Json& at);
  bool normalizer(const Json& at);
  bool pre_tokenizer(const Json& at);
  bool patterns();

  WordPieceConfig& config_;
};

}  // namespace fastqps::text
