// What a rerank answer must know of its request, in front of the RankContext.
#pragma once
#include <cstring>
#include <string_view>

#include "core/types.h"

namespace fastqps::front {

struct AnswerHead {
  u32 results_max = ~u32(0);  // top_n
  char version = '1';         // of the API
  char id[35] = "";           // of the answer, with a NUL

  std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  static AnswerHead of(std::string_view context) {
    AnswerHead head;
    std::memcpy(&head, context.data(), sizeof head);
    return head;
  }
  static std::string_view rest(std::string_view context) { return context.substr(sizeof(AnswerHead)); }
};

}  // namespace fastqps::front
