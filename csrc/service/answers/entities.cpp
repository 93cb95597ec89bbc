#include "service/answers/entities.h"

namespace fastqps::service {
namespace {

constexpr std::string_view kOutside = "O";  // no entity

bool begins(std::string_view label) { return label.starts_with("B-"); }

// By which neighbours belong together: without B- or I-.
std::string_view kind_of(std::string_view label) {
  return begins(label) || label.starts_with("I-") ? label.substr(2) : label;
}

// A joined entity's: without whatever stands in front of the first hyphen.
std::string_view name_of(std::string_view label) { return label.substr(label.find('-') + 1); }

}  // namespace

bool EntityMaker::make(Aggregation aggregation, std::span<const LabelScore> labels,
                       std::span<const text::TokenSpan> spans, const std::vector<std::string>& names) {
  entities_.clear();
  group_ = {};
  size_t token = 0;
  for (const LabelScore& label : labels) {
    if (token == spans.size() || label.index >= names.size()) return false;
    const size_t first = token++;
    while (labels_words(aggregation) && token < spans.size() && spans[token].continues_word) token++;
    if (spans[first].begin == text::kNoPart.begin) continue;
    const text::TokenSpan span{spans[first].begin, spans[token - 1].end, 0};
    aggregation == Aggregation::kNone ? add(names[label.index], label.score, span)
                                      : join(names[label.index], label.score, span);
  }
  close();
  return token == spans.size();
}

void EntityMaker::add(std::string_view label, float score, text::TokenSpan span) {
  if (label != kOutside) entities_.push_back({label, score, span.begin, span.end});
}

// Another one of the same kind belongs to the last, unless it says that it begins one.
void EntityMaker::join(std::string_view label, float score, text::TokenSpan span) {
  const std::string_view kind = kind_of(label);
  if (!group_.n || kind != group_.kind || begins(label)) {
    close();
    group_ = {.label = label, .kind = kind, .span = span};
  }
  group_.score += score;
  group_.n++;
  group_.span.end = span.end;
}

void EntityMaker::close() {
  if (group_.n) add(name_of(group_.label), group_.score / float(group_.n), group_.span);
  group_ = {};
}

}  // namespace fastqps::service
