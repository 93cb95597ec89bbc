// The context of an answer with ranks, as its reader makes it and its writer reads it: options, then the texts if they
// are returned.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace fastqps::front {

struct RankContext {
  enum Bit : u8 { kReturnText = 1, kRawScores = 2 };
  static constexpr size_t kBytesMax = 4 << 20;  // of the texts to return: as many as a message may have

  static void add_text(std::string& context, std::string_view text);
  static bool returns_text(std::string_view context) { return u8(context[0]) & kReturnText; }
  // In the order of the request.
  static std::vector<std::string_view> texts(std::string_view context);
};

}  // namespace fastqps::front
