// An item's scores, times and weights as answers have them, over gRPC and HTTP alike.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/response_view.h"
#include "contract/types.h"

namespace fastqps::protocols {

// The score of an item's first label, by which it is ranked.
float rank_score(const ResponseView& item);

// Turns logits into probabilities: one by the sigmoid, several by the softmax.
void activate(std::span<float> scores);

// A ranked text: its place in the request, and its score.
struct Rank {
  u32 index;
  float score;
};
// The texts of a request by score, best first. Equal ones keep their order.
std::vector<Rank> ranked(std::span<const ResponseView> items);

// The scores of an item, in the order of its labels, as its client wants them.
std::vector<float> scores_of(const ResponseView& item);

// Of a vector of zeros it is 0.
float cosine(std::span<const float> a, std::span<const float> b);

// The weights of an item by token id, ascending.
struct SparseValue {
  u32 index;
  float value;
};
std::vector<SparseValue> by_index(const SparseView& sparse);

// How long an answer took, in nanoseconds, and what it was made of. Of several items: the sums of characters and
// tokens, the longest total time, and the means of the other times.
struct AnswerMetadata {
  u32 characters = 0, tokens = 0;
  u64 total_ns = 0, tokenization_ns = 0, queue_ns = 0, inference_ns = 0;
};
AnswerMetadata metadata_of(std::span<const ResponseView> items);

// The context of an answer with ranks, as its reader makes it and its writer reads it: options, then the texts if they
// are returned.
struct RankContext {
  enum Bit : u8 { kReturnText = 1, kRawScores = 2 };
  static constexpr size_t kBytesMax = 4 << 20;  // of the texts to return: as many as a message may have

  static void add_text(std::string& context, std::string_view text);
  // A whole context: that of a message with all texts.
  static void append(std::string& context, bool returns_text, std::span<const std::string_view> texts);
  static bool returns_text(std::string_view context) { return u8(context[0]) & kReturnText; }
  // In the order of the request.
  static std::vector<std::string_view> texts(std::string_view context);
};

// A note of the reader for the writer about an item. It travels as the item's request id, which this API has not.
struct ItemNote {
  u32 characters = 0;     // of its texts
  bool activate = false;  // the scores are logits, and the client wants probabilities

  u64 as_id() const { return u64(activate) << 32 | characters; }
  static ItemNote of(u64 id) { return {u32(id), (id >> 32) != 0}; }
};

}  // namespace fastqps::protocols
