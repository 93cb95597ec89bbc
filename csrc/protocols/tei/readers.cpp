#include "protocols/tei/readers.h"

#include "contract/utf8.h"

namespace fastqps::protocols {

namespace {

using enum TeiPart;
constexpr TeiPart kEmbedParts[] = {kText, kTruncate, kNormalize, kDirection, kPromptName, kDimensions};
constexpr TeiPart kSparseParts[] = {kText, kTruncate, kDirection, kPromptName};
constexpr TeiPart kPredictParts[] = {kText, kTruncate, kRawScores, kDirection};
constexpr TeiPart kPairParts[] = {kTexts, kTruncate, kRawScores, kDirection};
constexpr TeiPart kRankParts[] = {kQuery, kTexts, kTruncate, kRawScores, kReturnText, kDirection};
constexpr TeiPart kRankStreamParts[] = {kQuery, kText, kTruncate, kRawScores, kReturnText, kDirection};

constexpr const char* kDamaged = "not valid protobuf";

constexpr bool is_text(TeiPart part) { return part <= kPromptName; }

FieldError read_text(WireReader& in, std::string_view* text, const char* field) {
  if (!in.bytes(text)) return {"", kDamaged};
  return text::valid_utf8(*text) ? FieldError{} : FieldError{field, "not valid UTF-8"};
}

}  // namespace

FieldError TeiReader::read_part(TeiPart part, WireReader& in) {
  u64 value = 0;
  if (!is_text(part) && !in.varint(&value)) return {"", kDamaged};
  switch (part) {
    case kQuery:
      return read_text(in, &query_, "query");
    case kText:
      return read_text(in, &texts_[0], text_field_);
    case kTexts:
      return read_text(in, &texts_.emplace_back(), text_field_);
    case kPromptName:
      return read_text(in, &options_.prompt_name, "prompt_name");
    case kTruncate:
      return options_.truncation.asked = value != 0, FieldError{};
    case kNormalize:
      return options_.normalize = value != 0, FieldError{};
    case kRawScores:
      return options_.raw_scores = value != 0, FieldError{};
    case kReturnText:
      return return_text_ = value != 0, FieldError{};
    case kDirection:
      return options_.direction = TruncationDirection(i32(value)), FieldError{};
    case kDimensions:
      return options_.dimensions = u32(value), FieldError{};
  }
  return {};
}

FieldError TeiReader::read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) {
  query_ = {};
  texts_.clear();
  if (has_one_text_) texts_.emplace_back();
  options_ = {};
  return_text_ = false;
  context_.clear();
  for (WireReader in({reinterpret_cast<const char*>(message.data()), message.size()}); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return {"", kDamaged};
    const u32 place = (tag >> 3) - 1;
    if (place < parts_.size() && (tag & 7) == u32(is_text(parts_[place]) ? WireType::kLength : WireType::kVarint)) {
      if (const FieldError error = read_part(parts_[place], in)) return error;
    } else if (!in.skip(tag, kWireDepthMax)) {
      return {"", kDamaged};
    }
  }
  return check(reason);
}

EmbedReader::EmbedReader(service::ModelRoutes& routes, bool sparse)
    : TeiReader(routes, sparse ? std::span<const TeiPart>(kSparseParts) : kEmbedParts, "inputs"), sparse_(sparse) {}

FieldError EmbedReader::item(u32, RequestView& view) {
  view.input = Input::kText;
  view.text = texts_[0];
  view.output.timings = true;
  return sparse_ ? requests_.embed_sparse(options_, view, item_reason_) : requests_.embed(options_, view, item_reason_);
}

PredictReader::PredictReader(service::ModelRoutes& routes, bool pairs)
    : TeiReader(routes, pairs ? kPairParts : kPredictParts, "inputs") {}

RerankReader::RerankReader(service::ModelRoutes& routes, u32 items_max)
    : RerankReader(routes, items_max, kRankParts, "texts") {}

FieldError RerankReader::check(ReasonText& reason) {
  if (const FieldError error = requests_.check_ranks(options_.model, reason)) return error;
  if (texts_.empty()) return {"texts", "0 texts, at least 1"};
  if (texts_.size() > items_max_) return {"texts", reason.print("%zu texts, at most %u", texts_.size(), items_max_)};
  context_.assign(1, char(return_text_ ? RankContext::kReturnText : 0));
  if (return_text_)
    for (const std::string_view text : texts_) RankContext::add_text(context_, text);
  return {};
}

RerankStreamReader::RerankStreamReader(service::ModelRoutes& routes)
    : RerankReader(routes, 1, kRankStreamParts, "text") {}

FieldError RerankStreamReader::check(ReasonText& reason) {
  if (before_.empty()) {
    context_.assign(
        1, char((return_text_ ? RankContext::kReturnText : 0) | (options_.raw_scores ? RankContext::kRawScores : 0)));
  }
  const std::string_view first = before_.empty() ? context_ : before_;
  options_.raw_scores = u8(first[0]) & RankContext::kRawScores;
  if (!RankContext::returns_text(first)) return {};
  if (before_.size() + texts_[0].size() > RankContext::kBytesMax)
    return {"return_text", reason.print("the stream has texts of more than %zu bytes to return, at most %zu",
                                        RankContext::kBytesMax, RankContext::kBytesMax)};
  RankContext::add_text(context_, texts_[0]);
  return {};
}

}  // namespace fastqps::protocols
