// From a message's bytes to a slot in a ring.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

#include "core/clock.h"
#include "predict/fingerprint.h"
#include "predict/predict_service.h"

namespace fastqps::front {
namespace {

constexpr u32 kSampled = 8;  // of so many items one is timed, and counted as often: a clock costs as much as the parser

}  // namespace

PredictService::Refusal PredictService::refuse(StatusCode code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int n = std::vsnprintf(note_, sizeof note_, format, args);
  va_end(args);
  return {code, {note_, size_t(std::clamp(n, 0, int(sizeof note_) - 1))}};
}

PredictService::Refusal PredictService::refuse_field(const char* field, const char* format, ...) {
  int n = std::snprintf(note_, sizeof note_, "%s: ", field);
  va_list args;
  va_start(args, format);
  n += std::vsnprintf(note_ + n, sizeof note_ - size_t(n), format, args);
  va_end(args);
  return {StatusCode::kInvalidArgument, {note_, size_t(std::clamp(n, 0, int(sizeof note_) - 1))}, field};
}

// Reads, checks and queues one item. On refusal `view` holds what could be read of it, at least its request_id where
// there is one.
PredictService::Refusal PredictService::accept(std::string_view bytes, const Origin& from, RequestView& view) {
  const bool timed = sample_++ % kSampled == 0;
  u64 start = timed || from.info->traced ? now_ns() : 0;
  ReasonText reason;
  FieldError error = parse_request(bytes, &view);
  if (!error) error = check_request(view, reason);
  if (error) {
    Refusal refusal =
        refuse(StatusCode::kInvalidArgument, "%s%s%s", error.field, *error.field ? ": " : "", error.reason);
    refusal.field = error.field;
    return refusal;
  }
  i32 found = find_route(view.model);
  if (found < 0) {
    if (found == -1) return not_served(view.model);
    return refuse(StatusCode::kUnavailable, "the model is starting");
  }
  const u32 r = u32(found);
  const Route& route = segment_.route(r);
  const bool generates = route.task == Task::kGenerate;
  if (Refusal refusal = generates ? check_generator(view, r) : check_encoder(view, r, from.method)) return refusal;

  const u64 now = transport_->turn_ns();
  const u64 deadline = deadline_of(view, *from.info);
  if (deadline && deadline <= now) {
    bump(stats_->expired[kReceive]);
    return refuse(StatusCode::kDeadlineExceeded, "the deadline had passed at stage receive");
  }
  if (Refusal refusal = admit(view, r, from, now, deadline)) return refusal;
  i64 taken = slab_.take();
  if (taken < 0) {
    bump(stats_->rejected[kRejectSlots]);
    Refusal refusal =
        refuse(StatusCode::kResourceExhausted, "all %u slots of this front door are in use", segment_.sizes().slots);
    refusal.retry_after_ms = i32(std::clamp<u64>(admission_.predicted_ns(r) / 1'000'000, 1, 10'000));
    return refusal;
  }

  const u32 slot = u32(taken);
  // Made in place: a copy of a fresh one waits for the narrow stores that made it.
  Item& item = *new (&items_[slot]) Item{.call = from.call,
                                         .connection = from.info->connection,
                                         .request_id = view.request_id,
                                         .received_ns = from.info->receive_ns,
                                         .group = from.group,
                                         .index = from.index,
                                         .route = u16(r),
                                         .method = from.method,
                                         .priority = u8(view.priority),
                                         .truncate = view.truncate};
  Slot& s = slab_.slot(slot);
  s.deadline_ns = deadline;
  s.dimensions = view.output.dimensions;
  s.top_labels = u16(std::min<u32>(view.output.top_labels, 0xffff));
  s.dtype = u8(view.output.dtype);
  s.flags = u8((view.output.has_normalize ? kNormalizeSet : 0) | (view.output.normalize ? kNormalize : 0) |
               (view.output.raw_scores ? kRawScores : 0) | (view.output.timings ? kWantTimings : 0));
  const bool traced = is_traced(from, r);
  const bool stamps = timed || view.output.timings || traced;
  u64 parsed = stamps ? now_ns() : 0;
  Refusal refusal = fill(view, r, slot, item);
  if (stamps) {
    item_times_[slot] = {start, parsed};
    item.stamped = true, item.traced = traced;
    stamp_ns_ = now_ns();
    if (timed) {
      item.parse_us = u32((parsed - start) / 1000);
      sample(kReceive, start - std::min(start, from.info->receive_ns));
      sample(kParse, parsed - start);
    }
    if (item.tokenizing) {
      item.sampled = timed;  // the stage ends when its worker is done
    } else {
      item.tokenize_us = u32((stamp_ns_ - parsed) / 1000);
      if (timed) sample(kTokenize, stamp_ns_ - parsed);
    }
  }
  if (refusal) {
    slab_.give_back(slot);
    return refusal;
  }
  link(slot);
  deadlines_.set(slot, deadline);
  if (generates) begin_generation(view, r, slot, from.method == kGenerate);
  if (!item.tokenizing) return queue(slot, r);
  return {};
}

// Names the models that are served, as many as the message has room for.
PredictService::Refusal PredictService::not_served(std::string_view name) {
  std::string served;
  for (u32 m = 0; m < segment_.sizes().models; m++)
    served.append(m ? ", '" : "'").append(segment_.model(m).name).append("'");
  Refusal refusal = refuse_field("model", "'%.*s' is not served here; served: %s",
                                 int(std::min<size_t>(name.size(), 100)), name.data(), served.c_str());
  refusal.code = StatusCode::kNotFound;
  return refusal;
}

PredictService::Refusal PredictService::check_encoder(const RequestView& view, u32 r, Rpc method) {
  const Route& route = segment_.route(r);
  const OutputOptions& output = view.output;
  const char* name = model_name(r);
  if (method == kGenerate) return refuse_field("model", "'%s' does not generate text; call Predict", name);
  if (view.has_generate) return refuse_field("generate", "the model '%s' does not generate text; leave it unset", name);
  if (output.dimensions > route.dimensions)
    return refuse_field("output.dimensions", "%u, at most %u", output.dimensions, route.dimensions);
  const bool normalized = output.has_normalize ? output.normalize : route.normalize;
  if (DType(output.dtype) == DType::kInt8 && route.task == Task::kEmbed && !normalized)
    return refuse_field("output.dtype",
                        "DTYPE_INT8 (3) can hold values from -1 to 1 only, and this embedding is not normalized; set "
                        "output.normalize, or use DTYPE_FLOAT16");
  return {};
}

// The earliest of the call's deadline, the item's timeout and the server's; 0: none of them is set.
u64 PredictService::deadline_of(const RequestView& view, const CallInfo& info) const {
  constexpr u64 kLongestUs = u64(3650) * 86400 * 1'000'000;  // ten years: the sum below cannot overflow
  u64 deadline = info.deadline_ns;
  for (u64 timeout_ns : {std::min(view.timeout_us, kLongestUs) * 1000, options_.default_timeout_ns})
    if (timeout_ns && (!deadline || info.receive_ns + timeout_ns < deadline)) deadline = info.receive_ns + timeout_ns;
  return deadline;
}

// The route that answers, -1: no such model, -2: none of its generations serves.
i32 PredictService::find_route(std::string_view name) const {
  const u32 models = segment_.sizes().models;
  for (u32 m = 0; m < models; m++) {
    const Model& model = segment_.model(m);
    if (!name.empty() && (name.size() >= kNameBytes || std::strlen(model.name) != name.size() ||
                          std::memcmp(model.name, name.data(), name.size())))
      continue;
    if (!model.ready.load(kAcquire)) return -2;
    return i32(m * kGenerations + model.serving.load(kAcquire));
  }
  return -1;
}

PredictService::Refusal PredictService::admit(const RequestView& view, u32 r, const Origin& from, u64 now,
                                              u64 deadline) {
  const Route& route = segment_.route(r);
  if (!route.dispatchers.load(kRelaxed)) return refuse(StatusCode::kUnavailable, "no dispatcher of this model is left");
  // A generation of few tokens does not take as long as the usual one; how many that has is not known, but its limit.
  const u32 tokens = view.generate.max_tokens;
  const u64 predicted = admission_.predicted_ns(r, tokens ? double(tokens) / route.max_output_tokens : 1);
  if (admission_.full(r)) {
    bump(stats_->rejected[kRejectQueueFull]);
    Refusal refusal = refuse(StatusCode::kResourceExhausted, "the queue is full: %u items wait", route.max_queue_items);
    refusal.retry_after_ms = i32(std::clamp<u64>(predicted / 1'000'000, 1, 10'000));
    return refusal;
  }
  if (Refusal refusal = check_share(r, from, predicted)) return refusal;
  if (deadline && predicted > deadline - now) {
    bump(stats_->rejected[kRejectPredictedMiss]);
    Refusal refusal =
        refuse(StatusCode::kResourceExhausted, "would miss its deadline: about %llu ms to an answer, %llu ms left",
               (unsigned long long)(predicted / 1'000'000), (unsigned long long)((deadline - now) / 1'000'000));
    refusal.retry_after_ms = i32(std::clamp<u64>((predicted - (deadline - now)) / 1'000'000, 1, 10'000));
    return refusal;
  }
  return {};
}

// Others come first where this connection has more than its share of the queue or the slots. But a batch whose
// connection has nothing else there is taken as far as there are places: one as large as a small queue would find the
// same end at each of its retries, and of an idle server too.
PredictService::Refusal PredictService::check_share(u32 r, const Origin& from, u64 predicted_ns) {
  const Sizes& sizes = segment_.sizes();
  const u32 batch = from.method == kPredictBatch ? groups_[from.group].slots : 0;
  const u32 waiting = shares_.waiting(from.info->connection, r), slots = shares_.slots(from.info->connection);
  const u32 left = sizes.slots - slab_.used();
  Refusal refusal;
  if (waiting > batch && Shares::over(waiting, admission_.free(r))) {
    refusal = refuse(StatusCode::kResourceExhausted, "this connection has its share of the queue: %u items may wait",
                     segment_.route(r).max_queue_items);
  } else if (left && slots > batch && Shares::over(slots, left)) {
    refusal = refuse(StatusCode::kResourceExhausted, "this connection has its share of this front door's %u slots",
                     sizes.slots);
  } else {
    return {};
  }
  bump(stats_->rejected[kRejectConnection]);
  refusal.retry_after_ms = i32(std::clamp<u64>(predicted_ns / 1'000'000, 1, 10'000));
  return refusal;
}

void PredictService::sample(Stage stage, u64 ns) { stats_->stage[stage].record(ns, kSampled); }

// The slot is complete: into the ring. On refusal the slot is free again and nothing of the item is left.
PredictService::Refusal PredictService::queue(u32 slot, u32 r) {
  static constexpr Class kClassOf[] = {kNormal, kLow, kNormal, kHigh};  // by fastqps.v1.Priority
  Item& item = items_[slot];
  Slot& s = slab_.slot(slot);
  // The wait for a dispatcher begins where the stages before it end. A clock for every item would cost a percent of its
  // work: the first one of a turn has its own, and those behind it the newest that there is.
  if (stamp_ns_ < transport_->turn_ns()) stamp_ns_ = now_ns();
  const u64 now = stamp_ns_;
  Refusal refusal;
  if (is_poison(s, now)) {
    bump(stats_->rejected[kRejectPoison]);
    refusal = refuse(StatusCode::kInternal, "this request has broken dispatchers and is refused for ten minutes");
  } else if (slab_.put(slot, r, kClassOf[item.priority & 3], 0, now)) {
    admission_.added(r);
    return {};
  } else {
    bump(stats_->rejected[kRejectQueueFull]);
    refusal = refuse(StatusCode::kResourceExhausted, "the queue is full");
    refusal.retry_after_ms = 10;
  }
  released(slot, 0);
  slab_.give_back(slot);
  return refusal;
}

// Nearly always one look at a word that nobody writes: it costs no more than to remember what it said, and what another
// door has found out holds here with the next request.
bool PredictService::is_poison(Slot& s, u64 now) const {
  if (segment_.supervisor().poison_until_ns.load(kAcquire) <= now) return false;  // partner: mark_poison
  const u64 print = fingerprint(segment_.ids(s), s.n_tokens.load(kRelaxed));
  for (u32 f = 0; f < segment_.sizes().doors; f++)
    for (const PoisonMark& mark : segment_.door(f).poison)
      if (mark.fingerprint.load(kRelaxed) == print && mark.until_ns.load(kRelaxed) > now) return true;
  return false;
}

}  // namespace fastqps::front
