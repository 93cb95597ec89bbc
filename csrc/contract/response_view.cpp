#include "contract/response_view.h"

#include "contract/fields.h"

namespace fastqps {
namespace {

// The fields of Timings, which are numbered as the times are.
struct TimingsFields {
  static size_t size(const Timings& timings) {
    size_t size = 0;
    for (const u32 us : timings.us) size += scalar_size(us);
    return size;
  }
  static void write(WireWriter& out, const Timings& timings) {
    u32 number = 1;
    for (const u32 us : timings.us) out.scalar(number++, us);
  }
};

// The field of an answer of this kind, written even if it is empty.
template <u32 number, class Parts, Output output, auto... member>
struct Answered {
  using Inside = Field<number, Submessage<Parts>, member...>;
  static bool has(const ResponseView& response) { return response.output == output; }
  static size_t size(const ResponseView& response) { return has(response) ? Inside::size(response) : 0; }
  static void write(WireWriter& out, const ResponseView& response) {
    if (has(response)) Inside::write(out, response);
  }
};

// A message that is left out where it has nothing.
template <class Parts>
struct Filled : Submessage<Parts> {
  template <class Message>
  static size_t size(const Message& message) {
    return Parts::size(message) ? Submessage<Parts>::size(message) : 0;
  }
  template <class Message>
  static void write(WireWriter& out, u32 number, const Message& message) {
    if (Parts::size(message)) Submessage<Parts>::write(out, number, message);
  }
};

template <class Parts>
using ListFields = Fields<Field<1, Repeated<Submessage<Parts>>>>;
using LabelFields = Fields<Field<1, Bytes, &LabelView::name>, Field<2, Fixed32, &LabelView::score>,
                           Field<3, Integer, &LabelView::index>>;
using EntityFields = Fields<Field<1, Bytes, &EntityView::label>, Field<2, Fixed32, &EntityView::score>,
                            Field<3, Integer, &EntityView::start>, Field<4, Integer, &EntityView::end>>;
// Of an Embedding, or with dimensions of a MultiVector.
using VectorFields = Fields<Field<1, Column, &EmbeddingView::values>, Field<2, Column, &EmbeddingView::raw>,
                            Field<3, Integer, &EmbeddingView::dtype>, Field<4, Integer, &EmbeddingView::dimensions>>;
using SparseFields = Fields<Field<1, Packed, &SparseView::ids>, Field<2, Column, &SparseView::weights>,
                            Field<3, Integer, &SparseView::active>>;
// A Generation has these fields from number 1 on, a GenerateChunk from number 2 on, but for logprobs: 5 in both.
template <u32 first>
using GenerationFields =
    Fields<Field<first, Bytes, &GenerationView::text>, Field<first + 1, Packed, &GenerationView::token_ids>,
           Field<first + 2, Integer, &GenerationView::finish_reason>, Field<5, Column, &GenerationView::logprobs>>;
using TopFields = Fields<Field<1, Packed, &TopView::ids>, Field<2, Column, &TopView::logprobs>>;
using PromptFields = Fields<Field<1, Packed, &PromptView::token_ids>, Field<2, Column, &PromptView::logprobs>,
                            Field<3, Filled<TopFields>, &PromptView::top>>;
// These have the same numbers in both.
using ChoiceFields = Fields<Field<1, Fixed32, &ChoiceScore::logprob>, Field<2, Fixed32, &ChoiceScore::score>>;
using GenerationEnd =
    Fields<Field<8, Filled<TopFields>, &GenerationView::top>, Field<9, Filled<PromptFields>, &GenerationView::prompt>,
           Field<10, Repeated<Submessage<ChoiceFields>>, &GenerationView::choice_scores>>;
// A Generation, with the other choices of its request.
struct ChoicesFields {
  using One = Fields<GenerationFields<1>, GenerationEnd>;
  using Others = Fields<Field<11, Repeated<Submessage<One>>, &ResponseView::other_choices>>;
  static size_t size(const ResponseView& response) { return One::size(response.generation) + Others::size(response); }
  static void write(WireWriter& out, const ResponseView& response) {
    One::write(out, response.generation);
    Others::write(out, response);
  }
};
using StatusFields = Fields<Field<1, Integer, &StatusView::code>, Field<2, Bytes, &StatusView::message>,
                            Field<4, Integer, &StatusView::retry_after_ms>>;
using UsageFields = Fields<Field<1, Integer, &Usage::input_tokens>, Field<2, Integer, &Usage::output_tokens>,
                           Field<3, Integer, &Usage::truncated>, Field<4, Integer, &Usage::truncated_at>>;

using Answer = ResponseView;
using ResponseFields =
    Fields<Field<1, Integer, &Answer::request_id>, Answered<2, VectorFields, Output::kEmbedding, &Answer::embedding>,
           Answered<3, ListFields<LabelFields>, Output::kClassification, &Answer::labels>,
           Answered<4, ChoicesFields, Output::kGeneration>, Field<5, Submessage<TimingsFields>, &Answer::timings>,
           Field<6, Submessage<StatusFields>, &Answer::status>, Field<7, Submessage<UsageFields>, &Answer::usage>,
           Answered<8, ListFields<EntityFields>, Output::kEntities, &Answer::entities>,
           Answered<9, SparseFields, Output::kSparse, &Answer::sparse>,
           Answered<10, VectorFields, Output::kMulti, &Answer::embedding>>;
using ChunkHead = Fields<Field<1, Integer, &ChunkView::request_id>>;
using ChunkEnd = Fields<Field<6, Submessage<UsageFields>, &ChunkView::usage>,
                        Field<7, Submessage<TimingsFields>, &ChunkView::timings>>;
using ChunkChoice = Fields<Field<12, Integer, &ChunkView::choice>>;

}  // namespace

std::size_t response_size(const ResponseView& response) { return ResponseFields::size(response); }

u8* write_response(const ResponseView& response, u8* buffer) {
  WireWriter out(buffer);
  ResponseFields::write(out, response);
  return out.end();
}

std::size_t chunk_size(const ChunkView& chunk) {
  return ChunkHead::size(chunk) + GenerationFields<2>::size(chunk.generation) + ChunkEnd::size(chunk) +
         GenerationEnd::size(chunk.generation) + ChunkChoice::size(chunk);
}

u8* write_chunk(const ChunkView& chunk, u8* buffer) {
  WireWriter out(buffer);
  ChunkHead::write(out, chunk);
  GenerationFields<2>::write(out, chunk.generation);
  ChunkEnd::write(out, chunk);
  GenerationEnd::write(out, chunk.generation);
  ChunkChoice::write(out, chunk);
  return out.end();
}

std::size_t batch_item_size(std::size_t response_size) { return delimited_size(response_size); }

u8* write_batch_frame(std::size_t response_size, u8* buffer) {
  WireWriter out(buffer);
  out.head(1, response_size);
  return out.end();
}

}  // namespace fastqps
