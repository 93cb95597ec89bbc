// From a message's bytes to a slot in a ring.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core/clock.h"
#include "front/fingerprint.h"
#include "front/predict_service.h"

namespace fastqps::front {

PredictService::Refusal PredictService::refuse(StatusCode code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int n = std::vsnprintf(note_, sizeof note_, format, args);
  va_end(args);
  return {code, {note_, size_t(std::clamp(n, 0, int(sizeof note_) - 1))}};
}

// Reads, checks and queues one item. On refusal `view` holds what could be read of it, at least its request_id where
// there is one.
PredictService::Refusal PredictService::accept(std::string_view bytes, const Origin& from, RequestView& view) {
  // Of every eighth item the stages are timed, and counted eight times: a clock costs as much as the parser.
  const bool timed = (sample_++ & 7) == 0;
  u64 start = timed ? now_ns() : 0;
  FieldError error = parse_request(bytes, &view);
  if (!error) error = check_request(view);
  if (error) {
    Refusal refusal =
        refuse(StatusCode::kInvalidArgument, "%s%s%s", error.field, *error.field ? ": " : "", error.reason);
    refusal.field = error.field;
    return refusal;
  }
  i32 found = find_route(view.model);
  if (found < 0) {
    if (found == -1)
      return refuse(StatusCode::kNotFound, "model '%.*s' is not served here",
                    int(std::min<size_t>(view.model.size(), 100)), view.model.data());
    return refuse(StatusCode::kUnavailable, "the model is starting");
  }
  const u32 r = u32(found);
  const Route& route = segment_.route(r);
  if (view.has_generate) {
    Refusal refusal = refuse(StatusCode::kInvalidArgument, "generate: this model does not generate text");
    refusal.field = "generate";
    return refusal;
  }
  if (view.output.dimensions > route.dimensions) {
    Refusal refusal = refuse(StatusCode::kInvalidArgument, "output.dimensions: %u, at most %u", view.output.dimensions,
                             route.dimensions);
    refusal.field = "output.dimensions";
    return refusal;
  }

  const u64 now = transport_->turn_ns();
  const u64 deadline = deadline_of(view, *from.info);
  if (deadline && deadline <= now) {
    bump(stats_->expired[kReceive]);
    return refuse(StatusCode::kDeadlineExceeded, "the deadline had passed at stage receive");
  }
  if (Refusal refusal = admit(r, now, deadline)) return refusal;
  i64 taken = slab_.take();
  if (taken < 0) {
    bump(stats_->rejected[kRejectSlots]);
    Refusal refusal =
        refuse(StatusCode::kResourceExhausted, "all %u slots of this front door are in use", segment_.sizes().slots);
    refusal.retry_after_ms = i32(std::clamp<u64>(admission_.predicted_ns(r) / 1'000'000, 1, 10'000));
    return refusal;
  }

  const u32 slot = u32(taken);
  Item& item = items_[slot];
  item = Item{};
  item.call = from.call;
  item.connection = from.info->connection;
  item.request_id = view.request_id;
  item.received_ns = from.info->receive_ns;
  item.group = from.group;
  item.index = from.index;
  item.route = r;
  item.priority = u8(view.priority);
  item.truncate = view.truncate;
  Slot& s = slab_.slot(slot);
  s.deadline_ns = deadline;
  s.dimensions = view.output.dimensions;
  s.top_labels = u16(std::min<u32>(view.output.top_labels, 0xffff));
  s.dtype = u8(view.output.dtype);
  s.flags = u8((view.output.has_normalize ? kNormalizeSet : 0) | (view.output.normalize ? kNormalize : 0) |
               (view.output.raw_scores ? kRawScores : 0) | (view.output.timings ? kWantTimings : 0));
  const bool stamps = timed || view.output.timings;
  u64 parsed = stamps ? now_ns() : 0;
  Refusal refusal = fill(view, r, slot, item);
  if (stamps) {
    u64 end = now_ns();
    item.tokenize_us = u32((end - parsed) / 1000);
    if (timed) {
      item.parse_us = u32((parsed - start) / 1000);
      stats_->stage[kReceive].record(start - std::min(start, from.info->receive_ns), 8);
      stats_->stage[kParse].record(parsed - start, 8);
      stats_->stage[kTokenize].record(end - parsed, 8);
    }
  }
  if (refusal) {
    slab_.give_back(slot);
    return refusal;
  }
  link(slot);
  deadlines_.set(slot, deadline);
  if (!item.tokenizing) return queue(slot, r);
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

PredictService::Refusal PredictService::admit(u32 r, u64 now, u64 deadline) {
  if (!segment_.route(r).dispatchers.load(kRelaxed))
    return refuse(StatusCode::kUnavailable, "no dispatcher of this model is left");
  const u64 predicted = admission_.predicted_ns(r);
  if (admission_.full(r)) {
    bump(stats_->rejected[kRejectQueueFull]);
    Refusal refusal =
        refuse(StatusCode::kResourceExhausted, "the queue is full: %u items wait", segment_.route(r).max_queue_items);
    refusal.retry_after_ms = i32(std::clamp<u64>(predicted / 1'000'000, 1, 10'000));
    return refusal;
  }
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

// Writes the request's ids into the slot, or its text into the tokenize queue.
PredictService::Refusal PredictService::fill(const RequestView& view, u32 r, u32 slot, Item& item) {
  const Route& route = segment_.route(r);
  if (view.input == Input::kTokenIds) return fill_ids(view, route, slot, item);
  RouteSetup& setup = setups_[r];
  const bool pair = view.input == Input::kPair;
  if (setup.external_tokenizer) {
    TokenizeJob job{slot, r, pair, std::string(pair ? view.pair_first : view.text), std::string(view.pair_second)};
    if (!tokenize_.push(std::move(job))) {
      bump(stats_->rejected[kRejectQueueFull]);
      Refusal refusal = refuse(StatusCode::kResourceExhausted, "too much text waits for this model's tokenizer");
      refusal.retry_after_ms = 100;
      return refusal;
    }
    item.tokenizing = true;
    tokenizing_++;
    return {};
  }
  if (!setup.tokenizer)
    return refuse(StatusCode::kInvalidArgument, "text: this model has no tokenizer; send token_ids");
  Slot& s = slab_.slot(slot);
  u32* ids = segment_.ids(s);
  text::Encoded encoded =
      pair ? setup.tokenizer->encode_pair(view.pair_first, view.pair_second, ids, route.max_input_tokens)
           : setup.tokenizer->encode(view.text, ids, route.max_input_tokens);
  if (encoded.truncated && !view.truncate)
    return too_long(pair ? "pair" : "text", encoded.n_total, route.max_input_tokens);
  if (!encoded.n_tokens) return refuse(StatusCode::kInvalidArgument, "text: no tokens");
  if (setup.check_ids)
    if (Refusal refusal = check_ids(pair ? "pair" : "text", ids, encoded.n_tokens, route)) return refusal;
  s.first_len = encoded.first_len;
  s.n_tokens.store(encoded.n_tokens, kRelaxed);
  item.truncated = encoded.truncated;
  return {};
}

PredictService::Refusal PredictService::fill_ids(const RequestView& view, const Route& route, u32 slot, Item& item) {
  Slot& s = slab_.slot(slot);
  u32 n = std::min(view.token_count, route.max_input_tokens);
  if (!n) return refuse(StatusCode::kInvalidArgument, "token_ids: at least one id");
  if (view.token_count > n && !view.truncate) return too_long("token_ids", view.token_count, route.max_input_tokens);
  u32* ids = segment_.ids(s);
  if (view.token_count > n) {
    scratch_ids_.resize(view.token_count);  // bounded by the size of a message
    token_ids(view, scratch_ids_.data());
    std::memcpy(ids, scratch_ids_.data(), n * sizeof(u32));
    item.truncated = true;
  } else {
    token_ids(view, ids);
  }
  if (Refusal refusal = check_ids("token_ids", ids, n, route)) return refusal;
  s.first_len = n;
  s.n_tokens.store(n, kRelaxed);
  return {};
}

// An id beyond the model's vocabulary would break the batch that it came into.
PredictService::Refusal PredictService::check_ids(const char* field, const u32* ids, u32 n, const Route& route) {
  const u32 largest = *std::max_element(ids, ids + n);
  if (largest < route.vocab_size) return {};
  Refusal refusal =
      refuse(StatusCode::kInvalidArgument, "%s: id %u, the vocabulary has %u", field, largest, route.vocab_size);
  refusal.field = field;
  return refusal;
}

PredictService::Refusal PredictService::too_long(std::string_view field, u32 tokens, u32 limit) {
  Refusal refusal = refuse(StatusCode::kInvalidArgument, "%.*s: %u tokens, at most %u; set truncate to have it cut",
                           int(field.size()), field.data(), tokens, limit);
  refusal.field = field;
  return refusal;
}

// The slot is complete: into the ring. On refusal the slot is free again and nothing of the item is left.
PredictService::Refusal PredictService::queue(u32 slot, u32 r) {
  static constexpr Class kClassOf[] = {kNormal, kLow, kNormal, kHigh};  // by fastqps.v1.Priority
  Item& item = items_[slot];
  Slot& s = slab_.slot(slot);
  const u64 now = transport_->turn_ns();
  Refusal refusal;
  if (poison_active_ && is_poison(segment_.ids(s), s.n_tokens.load(kRelaxed), now)) {
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

bool PredictService::is_poison(const u32* ids, u32 n, u64 now) const {
  const u64 print = fingerprint(ids, n);
  for (u32 f = 0; f < segment_.sizes().doors; f++)
    for (const PoisonMark& mark : segment_.door(f).poison)
      if (mark.fingerprint.load(kRelaxed) == print && mark.until_ns.load(kRelaxed) > now) return true;
  return false;
}

// Texts that worker threads have tokenized since the last turn.
void PredictService::finish_tokenizing() {
  for (TokenizeResult& result : tokenize_.take()) {
    Item& item = items_[result.slot];
    const Route& route = segment_.route(item.route);
    item.tokenizing = false;
    tokenizing_ -= !item.answered;
    Refusal refusal;
    const bool cut = result.n_total > result.ids.size();
    if (result.failed || result.ids.empty() || result.ids.size() > route.max_input_tokens) {
      refusal = refuse(StatusCode::kInvalidArgument, "text: the tokenizer refused it");
    } else if (cut && !item.truncate) {
      refusal = too_long("text", result.n_total, route.max_input_tokens);
    } else {
      refusal = check_ids("text", result.ids.data(), u32(result.ids.size()), route);
    }
    const Item kept = item;
    if (refusal || item.answered) {  // answered: expired or cancelled meanwhile
      released(result.slot, 0);
      slab_.give_back(result.slot);
    } else {
      Slot& s = slab_.slot(result.slot);
      std::memcpy(segment_.ids(s), result.ids.data(), result.ids.size() * sizeof(u32));
      s.first_len = std::min(result.first_len, u32(result.ids.size()));
      s.n_tokens.store(u32(result.ids.size()), kRelaxed);
      item.truncated = cut;
      refusal = queue(result.slot, item.route);
    }
    if (refusal && !kept.answered) report(kept, refusal);
  }
}

}  // namespace fastqps::front
