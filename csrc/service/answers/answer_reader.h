// Reads a dispatcher's result from a slot: an answer, as views for the encoder, or the reason for its absence.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "contract/response_view.h"
#include "core/layout.h"
#include "service/tables/tables.h"
#include "text/tokenizer.h"

namespace fastqps::service {

// The labels of tokens or words to entities, as transformers' pipeline for token classification makes them.
class EntityMaker {
 public:
  // labels: one for each token, or for each word where the aggregation says so. spans: the tokens'. The views are valid
  // until the next call, and as long as `names` are. Returns false if the labels are not those of the tokens.
  bool make(Aggregation aggregation, std::span<const LabelScore> labels, std::span<const text::TokenSpan> spans,
            const std::vector<std::string>& names);
  std::span<const EntityView> entities() const { return entities_; }

 private:
  void add(std::string_view label, float score, text::TokenSpan span);
  void join(std::string_view label, float score, text::TokenSpan span);
  void close();

  // Neighbours of one kind that are joined.
  struct Group {
    std::string_view label, kind;
    float score = 0;  // sum
    u32 n = 0;
    text::TokenSpan span = {};
  };
  std::vector<EntityView> entities_;
  Group group_;
};

class AnswerReader {
 public:
  explicit AnswerReader(Tables& tables) : tables_(tables) {}

  // Whether the slot holds no answer; then read_refusal() returns the reason.
  bool failed(u32 slot, Verdict verdict) { return verdict != Verdict::kDone || tables_.slots.slot(slot).status; }
  Refusal read_refusal(u32 slot, Verdict verdict);
  Refusal unreadable() {
    return tables_.refusals.refuse(StatusCode::kInternal, "the dispatcher's answer cannot be read");
  }

  // Reads an encoder's answer. The views are valid until the next call. Returns false if the bytes cannot be an answer
  // of this route.
  bool read(u32 slot, ResponseView& response, Timings& timings, Usage& usage);
  Usage read_usage(u32 slot, u32 output_tokens);
  // done: the dispatcher ended the generation. Otherwise the door did, and the slot's last timestamps are not set yet.
  Timings read_timings(u32 slot, bool done);

 private:
  Refusal read_status(u32 slot);
  Refusal read_reason(u32 slot);
  SlotView read_slot(const Slot& slot, std::span<const u8> bytes) const;
  bool read_vectors(u32 slot, ResponseView& response);
  void read_labels(u32 route, const LabelScore* scores, u32 n);
  bool read_entities(u32 slot, std::span<const LabelScore> labels);

  Tables& tables_;
  std::vector<LabelView> labels_;
  EntityMaker entities_;
};

}  // namespace fastqps::service
