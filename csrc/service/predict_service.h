// The service of a front door: message → request → slot → ring, and back from the output rings to answers.
//
// An *item* is one PredictRequest that holds a slot. Predict and Generate calls have one item. A batch or stream call
// has many, and a *group* that lists them. Every item ends in exactly one answer, and every call in finish() or
// on_gone().
#pragma once
#include <vector>

#include "service/answers/slot_events.h"
#include "service/formats/protocol.h"
#include "service/predict_methods.h"
#include "service/upkeep/canaries.h"
#include "service/upkeep/connection_balance.h"
#include "service/upkeep/counter_copy.h"
#include "service/upkeep/door_gauges.h"

namespace fastqps::service {

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
  u64 kept_bytes() const override { return answers_.groups.kept_bytes(); }
  void on_flushed() override;
  u64 next_wakeup_ns() override;
  bool about_to_sleep() override;
  void awake() override;
  bool may_accept(u32 connections) override { return balance_.may_accept(connections); }

  // The number of accepted items that were left without an answer when the loop or the drain ended.
  u32 cut_off() const { return answers_.withdrawals.cut_off() + tables_.slots.open() + tables_.tokenizers.wanted(); }
  // The number of generations that have a slot.
  u32 generations() const { return tables_.generations.open(); }

 private:
  void finish_texts();
  void drain(u64 now);
  void look_at_queues(u64 now);
  bool dispatchers_want_more();
  void tick(u64 now);

  SlotEvents events_;
  ServiceTables tables_;
  PhaseWatch phase_;
  AnswerPath answers_;
  RequestPath requests_;
  PredictMethods methods_;
  Canaries canaries_;
  CounterCopy counters_;
  DoorGauges gauges_;
  ConnectionBalance balance_;
  u64 ticked_ns_ = 0;
  std::vector<Protocol*> protocols_;
};

}  // namespace fastqps::service
