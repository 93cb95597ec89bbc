// A tokenizer.json to a UnigramConfig.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/spaced/spaced_json.h"
#include "text/unigram/unigram.h"

namespace fastqps::text {

class UnigramReader : private SpacedReader {
 public:
  UnigramReader(UnigramConfig& config, std::string& why) : SpacedReader(config, config.spaced, why), config_(config) {}
  // False, with the reason in `why`, when the native tokenizer would not give the ids of the `tokenizers` package.
  bool read(const nlohmann::json& file);

 private:
  bool model(const Json& at);
  void pieces();
  UnigramConfig& config_;
};

}  // namespace fastqps::text
