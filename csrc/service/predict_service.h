// The service of a front door: message → request → slot → ring, and back from the output rings to answers.
//
// An *item* is one PredictRequest that holds a slot. Predict and Generate calls have one item. A batch or stream call
// has many, and a *group* that lists them. Every item ends in exactly one answer, and every call in finish() or
// on_gone().
#pragma once
#include <vector>

#include "service/formats/protocol.h"
#include "service/intake/intake.h"
#include "service/methods.h"
#include "service/upkeep.h"
#include "transport/rpc/method.h"

namespace fastqps::service {

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

// PredictBatchRequest and PredictBatchResponse.
class NativeBatchReader final : public RequestReader {
 public:
  explicit NativeBatchReader(u32 items_max) : items_(items_max) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) override {
    return split_batch(as_text(message), items_, &count_, reason);
  }
  u32 items() const override { return u32(count_); }
  FieldError item(u32 index, RequestView& view) override { return parse_request(items_[index], &view); }

 private:
  std::vector<std::string_view> items_;
  size_t count_ = 0;
};

class NativeBatchWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override {
    size_t room = 0;
    for (const ResponseView& item : items) room += batch_item_size(response_size(item));
    return room;
  }
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override {
    for (const ResponseView& item : items) out = write_response(item, write_batch_frame(response_size(item), out));
    return out;
  }
  bool has_item_statuses() const override { return true; }
};

// Of PredictStream, whose messages have one item and one answer each.
class NativeStreamReader final : public RequestReader {
 public:
  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText&) override {
    message_ = as_text(message);
    return {};
  }
  u32 items() const override { return 1; }
  FieldError item(u32, RequestView& view) override { return parse_request(message_, &view); }

 private:
  std::string_view message_;
};

class NativeStreamWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override {
    return response_size(items[0]);
  }
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override {
    return write_response(items[0], out);
  }
  bool has_item_statuses() const override { return true; }
};

// The methods of PredictService, each an object and a row.
struct PredictMethods {
  PredictMethods(Tables& tables, AnswerPath& answers, Intake& intake);
  void add_to(transport::MethodTable& table);

  // What methods of other protocols are made of.
  const ItemsPath items_path;
  NativeBatchReader batch_reader;
  const NativeBatchWriter batch_writer;
  NativeStreamReader stream_reader;
  const NativeStreamWriter stream_writer;

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
  // Before the loop is made. The protocol outlives it.
  void add_protocol(Protocol& protocol) { protocols_.push_back(&protocol); }

  void add_methods(transport::MethodTable& methods) override {
    methods_.add_to(methods);
    for (Protocol* protocol : protocols_) protocol->add_methods(methods);
  }
  void add_routes(transport::HttpRoutes& routes) override {
    for (Protocol* protocol : protocols_) protocol->add_routes(routes);
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
  std::vector<Protocol*> protocols_;
};

}  // namespace fastqps::service
