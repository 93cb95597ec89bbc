#include "tei/rank_context.h"

#include <cstring>

namespace fastqps::front {

void RankContext::add_text(std::string& context, std::string_view text) {
  const auto size = u32(text.size());
  context.append(reinterpret_cast<const char*>(&size), sizeof size);
  context += text;
}

std::vector<std::string_view> RankContext::texts(std::string_view context) {
  std::vector<std::string_view> found;
  for (size_t at = 1; at < context.size();) {
    u32 size;
    std::memcpy(&size, context.data() + at, sizeof size);
    found.push_back(context.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return found;
}

}  // namespace fastqps::front
