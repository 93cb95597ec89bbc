// Items of generative models: writes their options into the slot, and reads their tokens while they are generated.
//
// Predict reads a generation once, at its end, unless it has stop strings. Generate, and requests with stop strings,
// are read whenever the slab reports progress. Tokens wait in the slot until they are read, so a client that does not
// read its chunks costs no memory: it gets the rest in one chunk.
#pragma once
#include <string>
#include <vector>

#include "service/answers/answer_reader.h"
#include "service/answers/answers.h"
#include "transport/rpc/seeds.h"

namespace fastqps::service {

// Likeliest tokens that are copied from a slot.
struct TopRows {
  std::vector<u32> ids;
  std::vector<float> logprobs;
};

class GenerationCalls {
 public:
  GenerationCalls(Tables& tables, AnswerReader& reader, ItemRecords& records, Answers& answers)
      : tables_(tables), reader_(reader), records_(records), answers_(answers) {}

  // Call only for a request that RequestChecker accepted, after the slot's flags for scatter are written.
  void begin(const RequestView& view, u32 route, u32 slot, bool stream, std::unique_ptr<ChoiceTexts> choices);
  // Called when a generation has more tokens.
  void read_progress(u32 slot);
  // Sends a dispatcher's complete answer. Returns false if the bytes cannot be an answer.
  bool finish(u32 slot);

 private:
  void write_sampling(const RequestView& view, u32 route, Sampling& sampling);
  void advance(u32 slot, u32 made, Finish finish);
  // Tokens of the slot's prompt that stand in front of its answer.
  u32 scored(u32 slot) const;
  TokenAnswer answer(u32 slot);
  TopView top(const TokenAnswer& answer, u32 from, u32 n, u32 columns, TopRows& rows);
  void begin_echo(u32 slot);
  PromptView read_prompt(u32 slot);
  void answer_alone(u32 slot);
  bool answer_choice(u32 slot, u32 made);
  GenerationView read_tokens(u32 slot, u32 made, Finish finish);
  void send_chunk(u32 slot, const GenerationView& view);
  void send_last(u32 slot, const GenerationView& view, bool done);

  Tables& tables_;
  AnswerReader& reader_;
  ItemRecords& records_;
  Answers& answers_;
  transport::Seeds seeds_;
  // of the chunk or answer that is being written
  std::vector<u32> ids_, prompt_ids_, offsets_;
  TopRows top_, prompt_top_;
  std::string text_;
};

}  // namespace fastqps::service
