#include "protocols/tei/grpc.h"

#include "contract/request_fields.h"

namespace fastqps::protocols {

namespace {

// The one text of a message: the last one counts.
template <FieldName name>
struct OneText : NamedText<name> {
  static FieldError read(WireReader& in, std::vector<std::string_view>& texts) {
    return NamedText<name>::read(in, texts[0]);
  }
};

template <FieldName name>
using Texts = Repeated<NamedText<name>>;
using Request = TeiRequest;
using Query = Field<1, NamedText<"query">, &Request::query>;
template <u32 number>
using PromptName = Field<number, NamedText<"prompt_name">, &Request::prompt_name>;
template <u32 number>
using Truncate = Field<number, Asked, &Request::truncation>;
template <u32 number>
using Direction = Field<number, Integer, &Request::direction>;
template <u32 number>
using RawScores = Field<number, Bool, &Request::raw_scores>;
using ReturnText = Field<5, Bool, &Request::return_text>;

using EmbedFields =
    Fields<Field<1, OneText<"inputs">, &Request::texts>, Truncate<2>, Field<3, Bool, &Request::normalize>, Direction<4>,
           PromptName<5>, Field<6, Integer, &Request::dimensions>>;
using SparseFields = Fields<Field<1, OneText<"inputs">, &Request::texts>, Truncate<2>, Direction<3>, PromptName<4>>;
using PredictFields = Fields<Field<1, OneText<"inputs">, &Request::texts>, Truncate<2>, RawScores<3>, Direction<4>>;
using PairFields = Fields<Field<1, Texts<"inputs">, &Request::texts>, Truncate<2>, RawScores<3>, Direction<4>>;
using RankFields =
    Fields<Query, Field<2, Texts<"texts">, &Request::texts>, Truncate<3>, RawScores<4>, ReturnText, Direction<6>>;
using RankStreamFields =
    Fields<Query, Field<2, OneText<"text">, &Request::texts>, Truncate<3>, RawScores<4>, ReturnText, Direction<6>>;

template <class Fields>
FieldError parse(std::string_view message, TeiRequest& request) {
  return Fields::parse(message, request);
}

}  // namespace

FieldError TeiReader::read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) {
  std::vector<std::string_view> texts = std::move(request_.texts);
  texts.assign(texts_min_, {});
  request_ = {};
  request_.texts = std::move(texts);
  context_.clear();
  const FieldError error = parse_({reinterpret_cast<const char*>(message.data()), message.size()}, request_);
  return error ? error : check(reason);
}

// EmbedAllRequest has the fields of EmbedSparseRequest.
EmbedReader::EmbedReader(service::ModelRoutes& routes, Task task)
    : TeiReader(routes, task == Task::kEmbed ? parse<EmbedFields> : parse<SparseFields>, 1), task_(task) {}

FieldError EmbedReader::item(u32, RequestView& view) {
  view.input = Input::kText;
  view.text = request_.texts[0];
  view.output.timings = true;
  return requests_.one(task_, request_, view, item_reason_);
}

PredictReader::PredictReader(service::ModelRoutes& routes, bool pairs)
    : TeiReader(routes, pairs ? parse<PairFields> : parse<PredictFields>, pairs ? 0 : 1) {}

RerankReader::RerankReader(service::ModelRoutes& routes, u32 items_max)
    : RerankReader(routes, items_max, parse<RankFields>, 0) {}

FieldError RerankReader::check(ReasonText& reason) {
  if (const FieldError error = requests_.check(kRanks, request_.model, reason)) return error;
  if (request_.texts.empty()) return {"texts", "0 texts, at least 1"};
  if (request_.texts.size() > items_max_)
    return {"texts", reason.print("%zu texts, at most %u", request_.texts.size(), items_max_)};
  RankContext::append(context_, request_.return_text, request_.texts);
  return {};
}

RerankStreamReader::RerankStreamReader(service::ModelRoutes& routes)
    : RerankReader(routes, 1, parse<RankStreamFields>, 1) {}

FieldError RerankStreamReader::check(ReasonText& reason) {
  if (before_.empty()) {
    context_.assign(1, char((request_.return_text ? RankContext::kReturnText : 0) |
                            (request_.raw_scores ? RankContext::kRawScores : 0)));
  }
  const std::string_view first = before_.empty() ? context_ : before_;
  request_.raw_scores = u8(first[0]) & RankContext::kRawScores;
  if (!RankContext::returns_text(first)) return {};
  if (before_.size() + request_.texts[0].size() > RankContext::kBytesMax)
    return {"return_text", reason.print("the stream has texts of more than %zu bytes to return, at most %zu",
                                        RankContext::kBytesMax, RankContext::kBytesMax)};
  RankContext::add_text(context_, request_.texts[0]);
  return {};
}

// ---- answers

namespace {

using service::AnsweredCall;
using Items = std::span<const ResponseView>;

constexpr size_t kHeadBytes = 16;      // more than the tag and the length of any field
constexpr size_t kNumbersBytes = 32;   // more than a Rank or a Prediction without its text
constexpr size_t kMetadataBytes = 80;  // more than a Metadata with its head

struct Prediction {
  float score;
  std::string_view label;
};
struct RankedText : Rank {
  std::string_view text;
};
using MetadataFields =
    Fields<Field<1, Integer, &AnswerMetadata::characters>, Field<2, Integer, &AnswerMetadata::tokens>,
           Field<3, Integer, &AnswerMetadata::total_ns>, Field<4, Integer, &AnswerMetadata::tokenization_ns>,
           Field<5, Integer, &AnswerMetadata::queue_ns>, Field<6, Integer, &AnswerMetadata::inference_ns>>;
using SparseValueFields = Fields<Field<1, Integer, &SparseValue::index>, Field<2, Fixed32, &SparseValue::value>>;
using PredictionFields = Fields<Field<1, Fixed32, &Prediction::score>, Field<2, Bytes, &Prediction::label>>;
using PlainRankFields = Fields<Field<1, Integer, &Rank::index>, Field<3, Fixed32, &Rank::score>>;
using RankedTextFields =
    Fields<Field<1, Integer, &Rank::index>, Field<2, GivenText, &RankedText::text>, Field<3, Fixed32, &Rank::score>>;

// Ends a message: its second field.
u8* end_with_metadata(WireWriter& out, Items items) {
  Submessage<MetadataFields>::write(out, 2, metadata_of(items));
  return out.end();
}

size_t embed_room(const AnsweredCall&, Items items) {
  return kHeadBytes + items[0].embedding.values.size_bytes() + kMetadataBytes;
}
u8* write_embed(const AnsweredCall&, Items items, u8* buffer) {
  WireWriter out(buffer);
  Column::write(out, 1, items[0].embedding.values);
  return end_with_metadata(out, items);
}

// TokenEmbedding: a vector.
using TokenFields = Fields<Field<1, Column>>;

size_t token_vectors_room(const AnsweredCall&, Items items) {
  const EmbeddingView& e = items[0].embedding;
  const size_t vectors = e.values.size() / std::max(e.dimensions, 1u);
  return e.values.size_bytes() + 2 * kHeadBytes * vectors + kMetadataBytes;
}
u8* write_token_vectors(const AnsweredCall&, Items items, u8* buffer) {
  WireWriter out(buffer);
  const EmbeddingView& e = items[0].embedding;
  for (size_t at = 0; at < e.values.size(); at += e.dimensions)
    Submessage<TokenFields>::write(out, 1, e.values.subspan(at, e.dimensions));
  return end_with_metadata(out, items);
}

size_t sparse_room(const AnsweredCall&, Items items) {
  return items[0].sparse.ids.size() * kNumbersBytes + kMetadataBytes;
}
u8* write_sparse(const AnsweredCall&, Items items, u8* buffer) {
  WireWriter out(buffer);
  Repeated<Submessage<SparseValueFields>>::write(out, 1, by_index(items[0].sparse));
  return end_with_metadata(out, items);
}

size_t predict_room(const AnsweredCall&, Items items) {
  size_t room = kMetadataBytes;
  for (const LabelView& label : items[0].labels) room += kNumbersBytes + label.name.size();
  return room;
}
u8* write_predict(const AnsweredCall&, Items items, u8* buffer) {
  WireWriter out(buffer);
  const std::vector<float> scores = scores_of(items[0]);
  for (size_t i = 0; i < scores.size(); i++)  // best first, as the item has them
    Submessage<PredictionFields>::write(out, 1, Prediction{scores[i], items[0].labels[i].name});
  return end_with_metadata(out, items);
}

size_t rank_room(const AnsweredCall& call, Items items) {
  return call.context.size() + items.size() * (kNumbersBytes + kHeadBytes) + kMetadataBytes;
}
u8* write_ranks(const AnsweredCall& call, Items items, u8* buffer) {
  WireWriter out(buffer);
  const bool returns_text = RankContext::returns_text(call.context);
  const std::vector<std::string_view> texts = RankContext::texts(call.context);
  for (const Rank& rank : ranked(items)) {
    if (returns_text)
      Submessage<RankedTextFields>::write(out, 1, RankedText{rank, texts[rank.index]});
    else
      Submessage<PlainRankFields>::write(out, 1, rank);
  }
  return end_with_metadata(out, items);
}

const service::PlainWriter<embed_room, write_embed, service::kTeiFields> embed_writer;
const service::PlainWriter<sparse_room, write_sparse, service::kTeiFields> sparse_writer;
const service::PlainWriter<token_vectors_room, write_token_vectors, service::kTeiFields> token_vectors_writer;
const service::PlainWriter<predict_room, write_predict, service::kTeiFields> predict_writer;
const service::PlainWriter<rank_room, write_ranks, service::kTeiRankFields> rerank_writer;

}  // namespace

const service::AnswerWriter &kEmbedWriter = embed_writer, &kSparseWriter = sparse_writer,
                            &kTokenVectorsWriter = token_vectors_writer, &kPredictWriter = predict_writer,
                            &kRerankWriter = rerank_writer;

}  // namespace fastqps::protocols
