// A tokenizer.json to a WordPieceConfig. Strict: whatever is not wholly understood is a reason to refuse the file.
#pragma once
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>

#include "text/wordpiece.h"

namespace fastqps::text {

class WordPieceReader {
 public:
  WordPieceReader(WordPieceConfig& config, std::string& why) : config_(config), why_(why) {}
  // False, with the reason in `why`, when the native tokenizer would not give the ids of the `tokenizers` package.
  bool read(const nlohmann::json& file);

 private:
  using Json = nlohmann::json;
  bool model(const Json& at);
  bool normalizer(const Json& at);
  bool pre_tokenizer(const Json& at);
  bool added_tokens(const Json& at);
  bool added_token(const Json& at, u32& next_id);
  bool check_patterns();
  bool post_processor(const Json& at);
  bool bert_processing(const Json& at);
  bool template_processing(const Json& at);
  bool single_template(const Json& pieces, const Json& tokens);
  bool pair_template(const Json& pieces, const Json& tokens);
  bool piece(const Json& at, const Json& tokens, char& sequence, std::vector<u32>& ids, u32& type_id);
  bool truncation(const Json& at);

  bool refuse(std::string reason);
  bool known_keys(const Json& at, const char* what, std::initializer_list<const char*> required,
                  std::initializer_list<const char*> optional = {});

  WordPieceConfig& config_;
  std::string& why_;
  std::unordered_map<std::string, u32> ids_;  // vocabulary, then added tokens
};

}  // namespace fastqps::text
