// Log-probabilities in OpenAI's two forms: of completions, by lists and maps, and of chats, by objects.
#pragma once
#include "service/formats/protocol.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

// The most bytes that either form takes.
size_t logprobs_room(const service::AnsweredCall& call, const GenerationView& generation);
// These write null where the generation has none.
void write_text_logprobs(transport::JsonWriter& out, const service::AnsweredCall& call,
                         const GenerationView& generation);
void write_chat_logprobs(transport::JsonWriter& out, const service::AnsweredCall& call,
                         const GenerationView& generation);

}  // namespace fastqps::protocols
