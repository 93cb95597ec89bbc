#include "step_service/step_writer.h"

#include "core/layout.h"

namespace fastqps::front {
namespace {

template <class T>
std::span<const u8> bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const u8*>(values.data()), values.size_bytes()};
}

// A part of a generation, or all of it.
StepRow of_tokens(u64 request_id, const GenerationView& tokens, const Timings* timings) {
  StepRow response{.item = u32(request_id),
                   .kind = u32(Answer::kTokens),
                   .n_values = u32(tokens.token_ids.size()),
                   .values = bytes_of(tokens.token_ids),
                   .more_values = bytes_of(tokens.logprobs),
                   .finish = u32(tokens.finish_reason)};  // as Finish
  if (timings) response.queue_us = timings->us[2], response.device_us = timings->us[5];
  return response;
}

}  // namespace

static_assert(u8(FinishReason::kStop) == u8(Finish::kStop) && u8(FinishReason::kLength) == u8(Finish::kLength));

StepRow StepWriter::of(const ResponseView& item) {
  if (item.status)
    return {.item = u32(item.request_id),
            .status = u32(item.status->code),
            .message = item.status->message,
            .retry_after_ms = item.status->retry_after_ms};
  if (item.output == Output::kGeneration) return of_tokens(item.request_id, item.generation, item.timings);
  const SlotView& slot = item.slot;
  return {.item = u32(item.request_id),
          .kind = slot.kind,
          .dtype = slot.dtype,
          .n_values = slot.n_values,
          .values = slot.bytes,
          .batch_items = slot.batch_items,
          .queue_us = slot.queue_us,
          .device_us = slot.device_us};
}

StepRow StepWriter::of(const ChunkView& chunk) { return of_tokens(chunk.request_id, chunk.generation, chunk.timings); }

}  // namespace fastqps::front
