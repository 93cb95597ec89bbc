// The parts of a tokenizer.json that all families have. Strict: whatever is not wholly understood is a reason to refuse
// the file.
#pragma once
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/template_tokenizer.h"

namespace fastqps::text {

struct FileConfig {
  std::vector<AddedToken> raw_tokens;         // matched in the text as it comes
  std::vector<AddedToken> normalized_tokens;  // matched in the normalized text between those; patterns are normalized
  Surround around;
  u32 largest_id() const;  // of added and special tokens
};

class FileReader {
 public:
  using Json = nlohmann::json;

 protected:
  FileReader(FileConfig& config, std::string& why) : common_(config), why_(why) {}

  bool envelope(const Json& file);
  bool vocabulary(const Json& at);                       // fills ids_; ids are distinct
  bool scored_vocabulary(const Json& at);                // fills ids_ and scored_: Unigram's
  bool added_tokens(const Json& at);                     // after vocabulary()
  bool check_patterns(bool space_at_ends);               // after the normalized ones were normalized
  bool nfc_normalizer(const Json& at, bool& nfc);        // none, or NFC
  static void compose(std::vector<AddedToken>& tokens);  // their patterns to NFC
  bool surround(const Json& file);                       // post-processor and truncation
  bool refuse(std::string reason);
  bool known_keys(const Json& at, const char* what, std::initializer_list<const char*> required,
                  std::initializer_list<const char*> optional = {});

  static const Json& member(const Json& at, const char* key);
  static bool is_u32(const Json& at);
  static bool has_type(const Json& at, const char* type);

  std::unordered_map<std::string, u32> ids_;            // vocabulary, then added tokens; of equal ones the last
  std::vector<std::pair<std::string, double>> scored_;  // by id

 private:
  bool added_token(const Json& at);
  bool post_processor(const Json& at);
  bool sequence(const Json& at);
  bool bert_processing(const Json& at, bool roberta);
  bool template_processing(const Json& at);
  bool single_template(const Json& pieces, const Json& tokens);
  bool pair_template(const Json& pieces, const Json& tokens);
  bool piece(const Json& at, const Json& tokens, char& sequence, std::vector<u32>& ids, u32& type_id);
  bool truncation(const Json& at);

  FileConfig& common_;
  std::string& why_;
  u32 vocab_size_ = 0;
  u32 after_added_ = 0;  // one above the largest id of an added token
};

}  // namespace fastqps::text
