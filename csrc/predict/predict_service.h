// The calls of PredictService: message → request → slot → ring, and back from the output rings to answers.
//
// An *item* is one PredictRequest that holds a slot. Predict and Generate have one; a batch or stream call has many and
// a *group* that knows them. Every item ends in exactly one answer; every call that it is told about ends in finish()
// or on_gone().
#pragma once
#include <string>
#include <vector>

#include "core/slab.h"
#include "front/loop.h"
#include "front/seeds.h"
#include "front/shares.h"
#include "grpc/service.h"
#include "predict/admission.h"
#include "predict/canaries.h"
#include "predict/deadlines.h"
#include "predict/generation.h"
#include "predict/groups.h"
#include "predict/route_setups.h"
#include "predict/text_worker.h"
#include "predict/tokenize_queue.h"
#include "wire/request_view.h"
#include "wire/response_view.h"

namespace fastqps::front {

struct PredictOptions {
  u32 door = 0;
  u32 max_stream_inflight = 1024;
  u32 max_batch_request_items = 1024;       // items of one PredictBatch
  u64 default_timeout_ns = 10'000'000'000;  // 0: none
  u64 canary_interval_ns = 0;               // 0: none
  bool rerun = true;
};

class PredictService final : public Service {
 public:
  PredictService(Segment segment, const WakeFds* fds, const PredictOptions& options);

  void add_methods(MethodTable& methods) const;
  RouteSetups& setups() { return setups_; }
  TokenizeQueue& tokenize_queue() { return tokenize_; }
  // Any thread, one at a time.
  void count_tokenizer_restart() { bump(stats_->tokenizer_restarts); }
  void set_tokenizer_pid(u32 which, u32 pid) { line_->tokenizers[which].store(pid, kRelaxed); }
  // The loop that runs this service, and its counters: for health, draining and the segment's copy of the counters.
  void set_loop(Loop* loop, const Counters* counters) { loop_ = loop, counters_ = counters; }

  void on_attach(Transport& transport) override;
  Took on_message(CallId call, u16 method, std::span<const u8> message, const CallInfo& info) override;
  void on_half_close(CallId call, u16 method, const CallInfo& info) override;
  Gone on_gone(CallId call, u16 method, u64 user) override;
  bool on_idle(CallId call, u16 method, u64 user) override;
  void on_turn(u64 now_ns) override;
  void on_flushed() override;
  u64 next_wakeup_ns() override;
  bool about_to_sleep() override;
  void awake() override;
  bool may_accept(u32 connections) override;

  // Items that were accepted and that the end of the loop, or of a drain's time, left without an answer.
  u32 cut_off() const { return cut_off_ + slab_.open() + tokenizing_; }

  // Generations that have a slot.
  u32 generations() const { return generations_.open(); }

  // The slab's host.
  void answer(u32 slot, u64 user, Verdict verdict);
  void progress(u32 slot, u64 user);
  void restarted(u32 slot, u64 user);
  void released(u32 slot, u64 user);
  void expect(u32 slot) {
    __builtin_prefetch(&items_[slot]);
    transport_->expect(items_[std::exchange(expected_, slot)].call);  // of the one before: its item is near by now
  }

 private:
  static constexpr u32 kNone = Groups::kNone;
  static constexpr Status kDrained = {.code = StatusCode::kUnavailable,
                                      .message = "the server is draining: open the stream again"};

  // One cache line, since each request writes and reads all of it.
  struct alignas(64) Item {
    CallId call;
    ConnectionId connection;
    u64 request_id = 0, received_ns = 0;
    u32 group = kNone, index = 0;  // of a batch or stream call: which, and where in its batch
    u32 parse_us = 0, tokenize_us = 0;
    u16 route = 0;
    Rpc method = kPredict;
    u8 priority = 0;
    bool stamped = false;  // item_times_ holds its times
    bool sampled = false, traced = false;
    bool tokenizing = false;  // not put yet: a worker has its text
    bool truncate = false, truncated = false;
    bool pair = false;
    bool cut = false;  // its text was cut before it was tokenized: what is left has to fill the model's limit
    bool answered = false;
    bool held = false;              // counts in held_
    bool waits = false;             // for a dispatcher, or for its text's tokens before that: counts in shares_
    bool holds_connection = false;  // its call has gone, but it still counts there
  };
  static_assert(sizeof(Item) == 64);
  struct ItemTimes {
    u64 parse_begun_ns, parse_ended_ns;
  };
  // Why an item was not accepted. Views are valid until the next refusal.
  struct Refusal {
    StatusCode code = StatusCode::kOk;
    std::string_view message = {};
    std::string_view field = {};
    i32 retry_after_ms = -1;
    explicit operator bool() const { return code != StatusCode::kOk; }
  };
  struct Origin {
    CallId call;
    const CallInfo* info;
    Rpc method;
    u32 group, index;
  };

  // accept.cpp: from bytes to a ring
  Refusal accept(std::string_view bytes, const Origin& from, RequestView& view);
  u64 deadline_of(const RequestView& view, const CallInfo& info) const;
  Refusal admit(const RequestView& view, u32 route, const Origin& from, u64 now, u64 deadline);
  Refusal check_share(u32 route, const Origin& from, u64 predicted_ns);
  Refusal check_encoder(const RequestView& view, u32 route, Rpc method);
  Refusal not_served(std::string_view model);
  const char* model_name(u32 route) const { return segment_.model(route / kGenerations).name; }
  Refusal queue(u32 slot, u32 route);
  void sample(Stage stage, u64 ns);
  Refusal refuse(StatusCode code, const char* format, ...) __attribute__((format(printf, 3, 4)));
  Refusal refuse_field(const char* field, const char* format, ...) __attribute__((format(printf, 3, 4)));
  i32 find_route(std::string_view model) const;
  bool is_poison(Slot& s, u64 now) const;

  // fill.cpp: ids, into the slot
  Refusal fill(const RequestView& view, u32 route, u32 slot, Item& item);
  Refusal bound_text(const RequestView& view, const Route& route, std::string_view& text, Item& item);
  Refusal hand_over(TokenizeJob job, bool native, Item& item);
  Refusal tokenizer_busy(const char* why);
  Refusal check_tokens(const Item& item, u32 n_tokens, u32 n_total, const Route& route);
  Refusal fill_ids(const RequestView& view, const Route& route, u32 slot, Item& item);
  Refusal check_ids(const char* field, const u32* ids, u32 n, const Route& route);
  Refusal too_long(const char* field, u32 tokens, u32 limit);
  void finish_tokenizing(const TokenizeResult& result);
  void drop_text(u32 slot);

  // generate.cpp: what differs for a model that generates
  Refusal check_generator(const RequestView& view, u32 route);
  Refusal check_token_options(const RequestView& view, u32 route);
  void begin_generation(const RequestView& view, u32 route, u32 slot, bool stream);
  void advance(u32 slot, u32 made, Finish finish);
  u32 token_room(u32 slot) const;
  GenerationView read_tokens(u32 slot, u32 made, Finish finish);
  void send_chunk(u32 slot, const GenerationView& view);
  bool finish_generation(u32 slot);
  void end_generation(u32 slot, const GenerationView& view, bool done);

  // answer.cpp: from the output rings to calls
  Refusal broken(u32 slot, Verdict verdict);
  bool report_row(u32 slot);
  bool view_answer(u32 slot, ResponseView& response, Timings& timings, Usage& usage);
  Timings timings_of(u32 slot, bool done);
  Usage usage_of(u32 slot, u32 output_tokens);
  void count_answer(u32 slot, bool done);
  void report(const Item& item, const Refusal& refusal);
  void report(const Item& item, const ResponseView& response);
  void report(const Item& item, const ChunkView& last);
  template <class Write>
  void end_call(const Item& item, size_t size, Write write);
  void refuse_item(const Origin& from, const RequestView& view, const Refusal& refusal);
  void count_item(u32 route, StatusCode code) { bump(stats_->items[route / kGenerations][u32(code)]); }
  void count_call(u32 route, Rpc method, StatusCode code, u64 received_ns);

  // give_up.cpp: items that end otherwise
  bool abandon(u32 slot);
  void expire(u32 slot);
  bool take_back(u32 slot);
  void give_up_waiting();
  void mark_poison(u32 slot);

  // group_calls.cpp: PredictBatch and PredictStream
  Took on_batch(CallId call, std::string_view message, const CallInfo& info);
  void on_stream(CallId call, std::string_view message, const CallInfo& info);
  Gone group_gone(u32 group);
  void answer_group(u32 group, u32 index, const ResponseView& response);
  void finish_batch(u32 group);
  void end_group(u32 group, const Status& status);
  u32 open_group(CallId call, Rpc method, const CallInfo& info);
  void free_group_if_done(u32 group);
  void hold(u32 group);
  void resume_held();
  void close_streams(u64 now_ns);

  void link(u32 slot);
  void end_wait(Item& item);
  void look_at_queues(u64 now);  // what dispatchers have taken, and how much waits
  void count_awake(u64 now);

  // reload.cpp: models that are reloaded
  void take_setups();
  void report_held();

  // trace_items.cpp
  enum class Ended : u8 { kByDispatcher, kByDoor, kUnanswered };
  bool is_traced(const Origin& from, u32 route);
  void trace_item(const Item& item, u32 slot, Ended ended, StatusCode code);

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
  Shares shares_;
  Canaries canaries_;
  Deadlines deadlines_;
  TokenizeQueue tokenize_;
  TextWorker text_worker_;
  Transport* transport_ = nullptr;
  Loop* loop_ = nullptr;
  const Counters* counters_ = nullptr;
  RouteSetups setups_;
  std::vector<u32> held_;    // by route: items that have a slot
  std::vector<Item> items_;  // by slot
  std::vector<ItemTimes> item_times_;
  Groups groups_;
  Generations generations_;
  Seeds seeds_;
  std::vector<u32> scratch_ids_;
  std::string text_;  // of the chunk or answer that is being written
  std::vector<LabelView> labels_;
  std::vector<std::string_view> batch_items_;
  char note_[512];
  fastqps::Phase phase_ = fastqps::Phase::kStarting;  // the transport's calls have a Phase too
  u64 drain_ns_ = 0;                                  // the clock of the current drain
  u32 expected_ = 0;                                  // the slot whose answer comes
  u32 drained_ = 0;                                   // answers since then
  u64 last_turn_ns_ = 0, ticked_ns_ = 0;
  u32 open_then_ = 0;  // at the end of that turn
  u64 woke_ns_ = 0;    // up to here its time is counted; 0: its first turn is to come
  // What this front door's earlier incarnations had counted: numbers that are copied go on from there.
  struct Before {
    u64 requeued, suspects, transport[kTransports], requests[kCodes], other[kCodes];
  } before_;
  u32 sample_ = 0;
  u64 stamp_ns_ = 0;  // the newest one of an item's
  u32 cut_off_ = 0;
  u64 drain_began_ns_ = 0, drain_by_ns_ = ~u64(0);
  u32 flips_seen_ = 0;
  bool draining_routes_ = false;
  u32 tokenizing_ = 0;  // items whose text a worker has, and which nobody has answered
  bool ahead_ = false;  // of another door, in connections
};

}  // namespace fastqps::front
