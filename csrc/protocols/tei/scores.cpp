#include "protocols/tei/scores.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace fastqps::protocols {

void activate(std::span<float> scores) {
  if (scores.size() == 1) {
    scores[0] = 1 / (1 + std::exp(-scores[0]));
    return;
  }
  const float highest = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - highest);
  for (float& score : scores) score /= sum;
}

std::vector<float> scores_of(const ResponseView& item) {
  std::vector<float> scores;
  for (const LabelView& label : item.labels) scores.push_back(label.score);
  if (ItemNote::of(item.request_id).activate && !scores.empty()) activate(scores);
  return scores;
}

float rank_score(const ResponseView& item) {
  const std::vector<float> scores = scores_of(item);  // best first
  const auto first = std::ranges::find(item.labels, 0u, &LabelView::index);
  return first == item.labels.end() ? 0 : scores[size_t(first - item.labels.begin())];
}

std::vector<Rank> ranked(std::span<const ResponseView> items) {
  std::vector<Rank> ranks;
  for (u32 i = 0; i < items.size(); i++) ranks.push_back({i, rank_score(items[i])});
  std::stable_sort(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) { return a.score > b.score; });
  return ranks;
}

float cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, a_squares = 0, b_squares = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); i++) {
    product += double(a[i]) * b[i];
    a_squares += double(a[i]) * a[i];
    b_squares += double(b[i]) * b[i];
  }
  const double lengths = std::sqrt(a_squares) * std::sqrt(b_squares);
  return lengths == 0 ? 0 : float(product / lengths);
}

std::vector<SparseValue> by_index(const SparseView& sparse) {
  std::vector<SparseValue> values;
  for (size_t i = 0; i < sparse.ids.size(); i++) values.push_back({sparse.ids[i], sparse.weights[i]});
  std::sort(values.begin(), values.end(), [](const SparseValue& a, const SparseValue& b) { return a.index < b.index; });
  return values;
}

AnswerMetadata metadata_of(std::span<const ResponseView> items) {
  constexpr u64 kNsPerUs = 1000;
  AnswerMetadata all;
  for (const ResponseView& item : items) {
    all.characters += ItemNote::of(item.request_id).characters;
    if (item.usage) all.tokens += item.usage->input_tokens;
    if (!item.timings) continue;
    // parse, tokenize, queue, gather, launch, device, scatter, drain
    const auto& us = item.timings->us;
    all.total_ns = std::max(all.total_ns, std::accumulate(std::begin(us), std::end(us), u64(0)) * kNsPerUs);
    all.tokenization_ns += us[1] * kNsPerUs;
    all.queue_ns += us[2] * kNsPerUs;
    all.inference_ns += (u64(us[3]) + us[4] + us[5] + us[6]) * kNsPerUs;
  }
  if (items.empty()) return all;
  all.tokenization_ns /= items.size();
  all.queue_ns /= items.size();
  all.inference_ns /= items.size();
  return all;
}

void RankContext::add_text(std::string& context, std::string_view text) {
  const auto size = u32(text.size());
  context.append(reinterpret_cast<const char*>(&size), sizeof size);
  context += text;
}

void RankContext::append(std::string& context, bool returns_text, std::span<const std::string_view> texts) {
  context += char(returns_text ? kReturnText : 0);
  if (returns_text)
    for (const std::string_view text : texts) add_text(context, text);
}

std::vector<std::string_view> RankContext::texts(std::string_view context) {
  std::vector<std::string_view> texts;
  for (size_t at = 1; at < context.size();) {
    u32 size;
    std::memcpy(&size, context.data() + at, sizeof size);
    texts.push_back(context.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return texts;
}

}  // namespace fastqps::protocols
