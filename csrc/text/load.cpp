#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/bpe/bpe_json.h"
#include "text/detokenizer.h"
#include "text/json_file.h"
#include "text/unigram/unigram_json.h"
#include "text/wordpiece/wordpiece_json.h"

namespace fastqps::text {

Tokenizer::~Tokenizer() = default;

namespace {

bool read(const std::string& source, nlohmann::json& file, std::string* why) {
  const std::size_t first = source.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && source[first] == '{') {
    file = parse_json(source);
  } else {
    std::ifstream stream(source, std::ios::binary);
    std::ostringstream all;
    if (!stream || !(all << stream.rdbuf())) {
      *why = "cannot read " + source;
      return false;
    }
    file = parse_json(all.str());
  }
  if (!file.is_object()) *why = "not a JSON object";
  return file.is_object();
}

std::string model_type(const nlohmann::json& file) {
  if (!file.contains("model")) return "";
  const auto& model = file["model"];
  const bool stated = model.is_object() && model.contains("type") && model["type"].is_string();
  return stated ? model["type"].get<std::string>() : "no type";
}

}  // namespace

std::optional<SpecialTokens> special_tokens_named(std::string_view name) {
  if (name == "all") return SpecialTokens::kAll;
  if (name == "none") return SpecialTokens::kNone;
  if (name == "trailing") return SpecialTokens::kTrailing;
  return std::nullopt;
}

std::unique_ptr<Tokenizer> load_native(const std::string& source, std::string* why, SpecialTokens special) {
  nlohmann::json file;
  if (!read(source, file, why)) return nullptr;
  const std::string type = model_type(file);
  if (type == "WordPiece") {
    WordPieceConfig config;
    if (!WordPieceReader(config, *why).read(file)) return nullptr;
    config.around.special.keep(special);
    return std::make_unique<WordPiece>(std::make_shared<const WordPieceModel>(std::move(config)));
  }
  if (type == "BPE") {
    BpeConfig config;
    if (!BpeReader(config, *why).read(file)) return nullptr;
    config.around.special.keep(special);
    return std::make_unique<Bpe>(std::make_shared<const BpeModel>(std::move(config)));
  }
  if (type == "Unigram") {
    UnigramConfig config;
    if (!UnigramReader(config, *why).read(file)) return nullptr;
    config.around.special.keep(special);
    return std::make_unique<Unigram>(std::make_shared<const UnigramModel>(std::move(config)));
  }
  *why = type.empty() ? "no model" : "model: " + type + " is not native, only WordPiece, BPE and Unigram are";
  return nullptr;
}

std::shared_ptr<const Detokenizer> load_detokenizer(const std::string& source, std::string* why) {
  nlohmann::json file;
  if (!read(source, file, why)) return nullptr;
  return DetokenizerReader(*why).read(file);
}

}  // namespace fastqps::text
