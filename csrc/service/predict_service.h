// The service of a front door: message → request → slot → ring, and back from the output rings to answers.
//
// An *item* is one PredictRequest that holds a slot. Predict and Generate calls have one item. A batch or stream call
// has many, and a *group* that lists them. Every item ends in exactly one answer, and every call in finish() or
// on_gone().
#pragma once
#include <algorithm>
#include <vector>

#include "contract/best_of.h"
#include "service/formats/protocol.h"
#include "service/intake/intake.h"
#include "service/methods.h"
#include "service/upkeep.h"
#include "transport/http/http_routes.h"
#include "transport/rpc/method.h"

namespace fastqps::service {

// A PredictRequest with several choices: each candidate is an item, and their answers are one PredictResponse, or
// GenerateChunks that name their choice.
class CandidatesReader final : public RequestReader {
 public:
  CandidatesReader(u32 items_max, bool streams) : items_max_(items_max), streams_(streams) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) override;
  u32 items() const override { return choices_.candidates; }
  u32 candidates() const override { return choices_.candidates; }
  FieldError item(u32 index, RequestView& view) override {
    view = request_;
    make_candidate(view, index);
    return {};
  }
  std::string_view context() const override;
  bool streams() const override { return streams_; }

 private:
  const u32 items_max_;
  const bool streams_;
  RequestView request_;
  BestOf choices_;
};

class CandidatesWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  size_t chunk_room(const AnsweredCall&, const ChunkView& chunk) const override {
    return chunk_size(as_written(chunk));
  }
  u8* write_chunk(const AnsweredCall&, const ChunkView& chunk, u8* out) const override {
    return fastqps::write_chunk(as_written(chunk), out);
  }

 private:
  // Only the last chunk of a choice has its usage.
  static ChunkView as_written(ChunkView chunk) {
    if (chunk.generation.finish_reason == FinishReason::kUnspecified) chunk.usage = nullptr;
    return chunk;
  }
};

// The parts on an answer's path from its slot to its call.
struct AnswerPath {
  explicit AnswerPath(Tables& tables)
      : groups(tables),
        answers(tables, groups),
        reader(tables),
        records(tables),
        generating(tables, reader, records, answers),
        withdrawals(tables, groups, records, answers) {}

  GroupCalls groups;
  Answers answers;
  AnswerReader reader;
  ItemRecords records;
  GenerationCalls generating;
  Withdrawals withdrawals;
};

// A PredictRequest, or a PredictBatchRequest of them.
class NativeReader final : public RequestReader {
 public:
  // items_max: of a batch; 0: a message is one request.
  explicit NativeReader(u32 items_max) : batch_(items_max > 0), items_(std::max(items_max, 1u)) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) override {
    if (batch_) return split_batch(as_text(message), items_, &count_, reason);
    items_[0] = as_text(message);
    return {};
  }
  u32 items() const override { return u32(count_); }
  FieldError item(u32 index, RequestView& view) override { return parse_request(items_[index], &view); }

 private:
  const bool batch_;
  std::vector<std::string_view> items_;
  size_t count_ = 1;
};

// A PredictResponse, or a PredictBatchResponse of them.
class NativeWriter final : public AnswerWriter {
 public:
  explicit NativeWriter(bool batch) : batch_(batch) {}

  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override {
    size_t room = 0;
    for (const ResponseView& item : items) room += batch_ ? batch_item_size(response_size(item)) : response_size(item);
    return room;
  }
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override {
    for (const ResponseView& item : items)
      out = write_response(item, batch_ ? write_batch_frame(response_size(item), out) : out);
    return out;
  }
  bool has_item_statuses() const override { return true; }

 private:
  const bool batch_;
};

// The methods of PredictService, each an object and a row.
struct PredictMethods {
  PredictMethods(Tables& tables, AnswerPath& answers, Intake& intake);
  std::vector<transport::MethodRow> rows();

  // What methods of other protocols are made of.
  const ItemsPath items_path;
  NativeReader batch_reader, stream_reader{0};
  const NativeWriter batch_writer{true}, stream_writer{false};

  CandidatesReader choices_reader, chunks_reader;
  const CandidatesWriter choices_writer;
  ItemsMethod predict_choices, generate_choices;

  SingleMethod predict, generate;
  ItemsMethod batch;
  StreamMethod stream;
};

class PredictService final : public transport::Service {
 public:
  PredictService(Segment segment, const WakeFds* fds, const PredictOptions& options);

  RouteSetups& setups() { return tables_.routes.setups(); }
  TokenizeQueue& tokenize_queue() { return tables_.tokenizers.external(); }
  // Any thread, one at a time.
  void count_tokenizer_restart() { bump(tables_.memory.stats.tokenizer_restarts); }
  void set_tokenizer_pid(u32 which, u32 pid) { tables_.memory.line.tokenizers[which].store(pid, kRelaxed); }
  // Sets the loop that runs this service, and its counters. They serve health, draining and the segment's copy of the
  // counters.
  void set_loop(transport::LoopControl* loop, const transport::Counters* counters) {
    tables_.attachment.loop = loop, tables_.attachment.counters = counters;
  }

  // What the methods of other protocols need.
  const ItemsPath& items_path() const { return methods_.items_path; }
  ModelRoutes& routes() { return tables_.routes; }
  const DoorMemory& memory() const { return tables_.memory; }
  // A method of another protocol, before the loop is made. It outlives the loop.
  void add(const transport::MethodRow& row) { rpcs_.push_back(row); }
  void add(const transport::HttpRow& row) { routes_.push_back(row); }
  void add_elsewhere(const char* path, const char* instead) { elsewhere_.emplace_back(path, instead); }

  void add_methods(transport::MethodTable& methods) override;
  void add_routes(transport::HttpRoutes& routes) override {
    for (const transport::HttpRow& row : routes_) routes.add(row);
    for (const auto& [path, instead] : elsewhere_) routes.add_elsewhere(path, instead);
  }
  void on_attach(transport::Transport& transport) override;
  void on_turn(u64 now_ns) override;
  u64 kept_bytes() const override { return tables_.groups.kept_bytes(); }
  void on_flushed() override;
  u64 next_wakeup_ns() override;
  bool about_to_sleep() override;
  void awake() override;
  bool may_accept(u32 connections) override { return balance_.may_accept(connections); }

  // The number of accepted items that were left without an answer when the loop or the drain ended.
  u32 cut_off() const { return answers_.withdrawals.cut_off() + tables_.slots.open() + tables_.tokenizers.wanted(); }
  // The number of generations that have a slot.
  u32 generations() const { return tables_.items.generations.open(); }

 private:
  void finish_texts();
  void drain(u64 now);
  void look_at_queues(u64 now);
  bool dispatchers_want_more();
  void tick(u64 now);

  SlotEvents events_;
  Tables tables_;
  AnswerPath answers_;
  RequestQueue queue_;
  Intake intake_;
  PredictMethods methods_;
  Canaries canaries_;
  CounterCopy counters_;
  DoorGauges gauges_;
  ConnectionBalance balance_;
  u64 ticked_ns_ = 0;
  std::vector<transport::MethodRow> rpcs_;  // of other protocols
  std::vector<transport::HttpRow> routes_;
  std::vector<std::pair<const char*, const char*>> elsewhere_;  // paths of no route, and what to use instead
};

}  // namespace fastqps::service
