// Log-probabilities in OpenAI's two forms: of completions, by lists and maps, and of chats, by objects.
#pragma once
#include "service/formats/protocol.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

// What an answer repeats of its prompt, with so many likeliest tokens.
struct Echo {
  const PromptView* prompt = nullptr;  // none
  u32 top = 0;
};

// The most bytes that either form takes, or the prompt's form.
size_t logprobs_room(const service::AnsweredCall& call, const GenerationView& generation);
size_t prompt_logprobs_room(const service::AnsweredCall& call, const PromptView& prompt);
// These write null where the generation has none.
void write_text_logprobs(transport::JsonWriter& out, const service::AnsweredCall& call,
                         const GenerationView& generation, Echo echo);
void write_chat_logprobs(transport::JsonWriter& out, const service::AnsweredCall& call,
                         const GenerationView& generation);
// As vLLM has it: of each token but the first an object by ids, with the token's own and the `top` likeliest. A rank is
// null where it is not known.
void write_prompt_logprobs(transport::JsonWriter& out, const service::AnsweredCall& call, const PromptView& prompt,
                           u32 top);

}  // namespace fastqps::protocols
