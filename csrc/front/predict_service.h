// Predict, PredictBatch and PredictStream: message → request → slot → ring, and back from the output rings to answers.
//
// An *item* is one PredictRequest that holds a slot. Predict has one; a batch or stream call has many and a *group*
// that knows them. Every item ends in exactly one answer; every call that it is told about ends in finish() or
// on_gone().
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/slab.h"
#include "front/admission.h"
#include "front/deadlines.h"
#include "front/loop.h"
#include "front/request_view.h"
#include "front/response_view.h"
#include "front/service.h"
#include "front/tokenize_queue.h"
#include "text/tokenizer.h"

namespace fastqps::front {

struct PredictOptions {
  u32 door = 0;
  u32 max_stream_inflight = 1024;
  u32 max_batch_request_items = 1024;       // items of one PredictBatch
  u64 default_timeout_ns = 10'000'000'000;  // 0: none
  bool rerun = true;
};

// What the door knows of a route beyond the segment: from the model's card, before it serves.
struct RouteSetup {
  std::unique_ptr<text::Tokenizer> tokenizer;  // null: the tokenize queue, or token ids only
  bool external_tokenizer = false;
  bool check_ids = false;  // the tokenizer knows ids that the model does not
  std::vector<std::string> labels;
  HeaderId header = 0;
};

class PredictService final : public Service {
 public:
  PredictService(Segment segment, const WakeFds* fds, const PredictOptions& options);

  void add_methods(MethodTable& methods) const;
  RouteSetup& setup(u32 route) { return setups_[route]; }
  TokenizeQueue& tokenize_queue() { return tokenize_; }
  // The loop that runs this service, and its counters: for health, draining and the segment's copy of the counters.
  void set_loop(Loop* loop, const Counters* counters) { loop_ = loop, counters_ = counters; }

  void on_attach(Transport& transport) override;
  void on_message(CallId call, u16 method, std::span<const u8> message, const CallInfo& info) override;
  void on_half_close(CallId call, u16 method, const CallInfo& info) override;
  Gone on_gone(CallId call, u16 method, u64 user) override;
  void on_turn(u64 now_ns) override;
  void on_flushed() override;
  u64 next_wakeup_ns() override;
  bool about_to_sleep() override;
  void awake() override;
  bool may_accept(u32 connections) override;

  // Items that were accepted and that the end of the loop, or of a drain's time, left without an answer.
  u32 cut_off() const { return cut_off_ + slab_.open() + tokenizing_; }

  // The slab's host.
  void answer(u32 slot, u64 user, Verdict verdict);
  void progress(u32, u64) {}
  void restarted(u32, u64) {}
  void released(u32 slot, u64 user);

 private:
  static constexpr u32 kNone = ~u32(0);
  static constexpr Status kDrained = {.code = StatusCode::kUnavailable,
                                      .message = "the server is draining: open the stream again"};

  struct Item {
    CallId call;
    ConnectionId connection;
    u64 request_id = 0, received_ns = 0;
    u32 group = kNone, next = kNone, prev = kNone;  // the group's items, linked
    u32 index = 0;                                  // in its batch
    u32 route = 0;
    u8 priority = 0;
    u32 parse_us = 0, tokenize_us = 0;
    bool tokenizing = false;  // not put yet: a worker has its text
    bool truncate = false, truncated = false;
    bool answered = false;
    bool holds_connection = false;  // its call has gone, but it still counts there
  };
  struct Group {
    CallId call;
    ConnectionId connection;
    Rpc method = kPredictBatch;
    u64 received_ns = 0;
    u64 active_ns = 0;   // a stream's newest message or answer
    u32 first = kNone;   // its items that hold slots
    u32 slots = 0;       // how many
    u32 unanswered = 0;  // items that came and have no answer yet, with or without a slot
    u32 route = 0;       // of its newest item, for the counters
    bool open = false, half_closed = false, gone = false, held = false, holds_connection = false;
    bool closing = false;                    // a stream of a draining server: no more of its messages are taken
    std::vector<u8> bytes;                   // a batch's answers, encoded, in the order in which they came
    std::vector<std::pair<u32, u32>> parts;  // item → (start, size) in bytes
  };
  // Why an item was not accepted. Views are valid until the next refusal.
  struct Refusal {
    StatusCode code = StatusCode::kOk;
    std::string_view message = {}, field = {};
    i32 retry_after_ms = -1;
    explicit operator bool() const { return code != StatusCode::kOk; }
  };
  struct Origin {
    CallId call;
    const CallInfo* info;
    u32 group, index;
  };

  // accept.cpp: from bytes to a ring
  Refusal accept(std::string_view bytes, const Origin& from, RequestView& view);
  u64 deadline_of(const RequestView& view, const CallInfo& info) const;
  Refusal admit(u32 route, u64 now, u64 deadline);
  Refusal fill(const RequestView& view, u32 route, u32 slot, Item& item);
  Refusal fill_ids(const RequestView& view, const Route& route, u32 slot, Item& item);
  Refusal check_ids(const char* field, const u32* ids, u32 n, const Route& route);
  Refusal queue(u32 slot, u32 route);
  Refusal too_long(std::string_view field, u32 tokens, u32 limit);
  Refusal refuse(StatusCode code, const char* format, ...) __attribute__((format(printf, 3, 4)));
  i32 find_route(std::string_view model) const;
  bool is_poison(const u32* ids, u32 n, u64 now) const;
  void finish_tokenizing();

  // answer.cpp: from the output rings to calls
  Refusal broken(u32 slot, Verdict verdict);
  bool view_answer(u32 slot, ResponseView& response, Timings& timings, Usage& usage);
  void report(const Item& item, const Refusal& refusal);
  void report(const Item& item, const ResponseView& response);
  void refuse_item(const Origin& from, const RequestView& view, const Refusal& refusal);
  void answer_group(u32 group, u32 index, const ResponseView& response);
  void finish_batch(u32 group);
  void end_group(u32 group, const Status& status);
  void expire(u32 slot);
  bool take_back(u32 slot);
  void give_up_waiting();
  void mark_poison(u32 slot);
  void count_item(u32 route, StatusCode code) { bump(stats_->items[route / kGenerations][u32(code)]); }
  void count_call(u32 route, Rpc method, StatusCode code, u64 received_ns);

  // predict_service.cpp: calls, groups, turns
  void on_batch(CallId call, std::string_view message, const CallInfo& info);
  void on_stream(CallId call, std::string_view message, const CallInfo& info);
  u32 open_group(CallId call, Rpc method, const CallInfo& info);
  void free_group_if_done(u32 group);
  void link(u32 slot);
  void unlink(u32 slot);
  bool abandon(u32 slot);
  void resume_held();
  void hold(u32 group);
  void close_streams(u64 now_ns);

  // tick.cpp
  void watch_phase(u64 now_ns);
  void tick(u64 now_ns);
  void copy_counters();
  u64 counted(u32 code) const;

  Segment segment_;
  const WakeFds* fds_;  // nullptr: nobody else is there
  PredictOptions options_;
  Stats* stats_;
  DoorLine* line_;
  Slab<PredictService> slab_;
  Admission admission_;
  Deadlines deadlines_;
  TokenizeQueue tokenize_;
  Transport* transport_ = nullptr;
  Loop* loop_ = nullptr;
  const Counters* counters_ = nullptr;
  std::vector<RouteSetup> setups_;
  std::vector<Item> items_;  // by slot
  std::vector<Group> groups_;
  std::vector<u32> free_groups_, held_groups_;
  std::vector<u32> scratch_ids_;
  std::vector<LabelView> labels_;
  std::vector<std::string_view> batch_items_;
  char note_[512];
  Phase phase_ = Phase::kStarting;
  u64 drain_ns_ = 0;  // the clock of the current drain
  u32 drained_ = 0;   // answers since then
  u64 last_turn_ns_ = 0, ticked_ns_ = 0;
  // What this front door's earlier incarnations had counted: numbers that are copied go on from there.
  struct Before {
    u64 requeued, suspects, transport[kTransports], requests[kCodes], other[kCodes];
  } before_;
  u32 sample_ = 0;
  u32 cut_off_ = 0;
  u64 drain_began_ns_ = 0, drain_by_ns_ = ~u64(0);
  u32 tokenizing_ = 0;  // items whose text a worker has, and which nobody has answered
  bool poison_active_ = false;
  bool ahead_ = false;  // of another door, in connections
};

}  // namespace fastqps::front
