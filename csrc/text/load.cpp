#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/wordpiece_json.h"

namespace fastqps::text {

Tokenizer::~Tokenizer() = default;

namespace {

bool read(const std::string& source, std::string& content, std::string* why) {
  const std::size_t first = source.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && source[first] == '{') {
    content = source;
    return true;
  }
  std::ifstream file(source, std::ios::binary);
  std::ostringstream all;
  if (!file || !(all << file.rdbuf())) {
    *why = "cannot read " + source;
    return false;
  }
  content = all.str();
  return true;
}

}  // namespace

std::unique_ptr<Tokenizer> load_native(const std::string& source, std::string* why) {
  std::string content;
  if (!read(source, content, why)) return nullptr;
  const auto file = nlohmann::json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) {
    *why = "not a JSON object";
    return nullptr;
  }
  WordPieceConfig config;
  if (!WordPieceReader(config, *why).read(file)) return nullptr;
  return std::make_unique<WordPiece>(std::make_shared<const WordPieceModel>(std::move(config)));
}

}  // namespace fastqps::text
