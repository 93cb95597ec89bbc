// The normalizer and the pre-tokenizer of a tokenizer.json with SentencePiece's spaces, to a SpacedConfig.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/file_reader.h"
#include "text/spaced/spaced_text.h"

namespace fastqps::text {

class SpacedReader : protected FileReader {
 protected:
  SpacedReader(FileConfig& config, SpacedConfig& spaced, std::string& why)
      : FileReader(config, why), tokens_(config), spaced_(spaced) {}

  // After added_tokens(): those that are found in normalized text are normalized here.
  bool spaced(const Json& file);
  // Whether the pre-tokenizer is one that spaced() may read.
  static bool is_spaced(const Json& pre_tokenizer);

 private:
  bool pre_tokenizer(const Json& at);
  bool metaspace(const Json& at);
  bool split(const Json& at);
  bool writes_spaces() const;
  void fold();

  FileConfig& tokens_;
  SpacedConfig& spaced_;
  std::vector<NormalizerStep> steps_;
  bool metaspace_ = false;
};

// The part that reads normalizers, for whoever needs these alone.
class NormalizersReader : private FileReader {
 public:
  NormalizersReader(FileConfig& config, std::string& why) : FileReader(config, why) {}
  bool read(const nlohmann::json& at, std::vector<NormalizerStep>& steps);

 private:
  bool step(const Json& at, std::vector<NormalizerStep>& steps);
  bool replace(const Json& at, std::vector<NormalizerStep>& steps);
  bool strip(const Json& at, std::vector<NormalizerStep>& steps);
  bool precompiled(const Json& at, std::vector<NormalizerStep>& steps);
};

// As the package does with the added tokens that are found in normalized text.
void normalize(const Normalizers& normalizers, std::vector<AddedToken>& tokens);

}  // namespace fastqps::text
