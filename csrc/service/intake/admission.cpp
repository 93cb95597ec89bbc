#include "service/intake/admission.h"

#include <algorithm>

#include "transport/rpc/fair_queue.h"

namespace fastqps::service {

Refusal RequestChecker::check(const RequestView& view, const Origin& from, u32& route) {
  ReasonText reason;
  const auto able = [&](u32 r) { return can_answer(from.wants, r); };
  const i32 found = from.wants == Output::kNone ? routes_.find(view.model) : routes_.find(view.model, able);
  const bool step = view.input == Input::kStep && found >= 0;
  const Sampling& checkpoint = step ? routes_.setup(u32(found)).checkpoint_sampling : kNoSampling;
  if (const FieldError error = check_request(view, reason, checkpoint)) return refusals_.refuse(error);
  if (found == ModelRoutes::kUnknown) return not_served(view.model);
  if (found == ModelRoutes::kStarting) return refusals_.refuse(StatusCode::kUnavailable, "the model is starting");
  route = u32(found);
  if (Refusal refusal = check_task(from.wants, route)) return refusal;
  if (Refusal refusal = check_options(view.output, route)) return refusal;
  return generates(routes_[route].task) ? check_generator(view, route) : check_encoder(view, route, from.streams);
}

// Lists the served models, as many as the message has room for.
Refusal RequestChecker::not_served(std::string_view name) {
  Refusal refusal =
      refusals_.refuse_field("model", "'%.*s' is not served here; served: %s", int(std::min<size_t>(name.size(), 100)),
                             name.data(), routes_.names().c_str());
  refusal.code = StatusCode::kNotFound;
  return refusal;
}

bool RequestChecker::can_answer(Output wants, u32 r) const {
  const Output output = traits(routes_[r].task).output;
  return wants == Output::kNone || (wants == Output::kText ? Output::kGeneration : wants) == output;
}

// Of methods that are for one task alone.
Refusal RequestChecker::check_task(Output wants, u32 r) {
  const bool can = can_answer(wants, r);
  if (can && wants == Output::kText && !routes_.setup(r).detokenizer)
    return refusals_.refuse_field(
        "model",
        "'%s' has no tokenizer, so its answers have no text; ask for logprobs, which name the "
        "tokens by their ids, or call Predict",
        routes_.name(r));
  if (can) return {};
  const std::string able = routes_.names([&](u32 other) { return can_answer(wants, other); });
  return refusals_.refuse_field("model", "'%s' %s, which is not what this method is for; %s%s", routes_.name(r),
                                traits(routes_[r].task).does,
                                able.empty() ? "no served model can do it" : "these can: ", able.c_str());
}

// Refuses the options of other tasks.
Refusal RequestChecker::check_options(const OutputOptions& o, u32 r) {
  const u8 taken = traits(routes_[r].task).options;
  if (!(taken & kVectorOptions)) {
    if (o.dtype) return meaningless("output.dtype", u32(o.dtype), r);
    if (o.dimensions) return meaningless("output.dimensions", o.dimensions, r);
    if (o.normalize) return meaningless("output.normalize", *o.normalize, r);
  }
  if (!(taken & kLabelOptions)) {
    if (o.top_labels) return meaningless("output.top_labels", o.top_labels, r);
    if (o.raw_scores) return meaningless("output.raw_scores", 1, r);
  }
  if (o.aggregation && !(taken & kAggregationOption)) return meaningless("output.aggregation", u32(o.aggregation), r);
  if (o.max_active_dims && !(taken & kActiveDimsOption))
    return meaningless("output.max_active_dims", o.max_active_dims, r);
  return {};
}

Refusal RequestChecker::check_encoder(const RequestView& view, u32 r, bool streams) {
  const Route& route = routes_[r];
  const OutputOptions& output = view.output;
  const char* name = routes_.name(r);
  if (streams) return refusals_.refuse_field("model", "'%s' does not generate text; call Predict", name);
  if (view.input == Input::kChat)
    return refusals_.refuse_field("chat.messages",
                                  "the model '%s' %s, and a conversation is for models that generate text; "
                                  "send text",
                                  name, traits(route.task).does);
  if (view.has_generate)
    return refusals_.refuse_field("generate", "the model '%s' does not generate text; leave it unset", name);
  if (output.dimensions > route.dimensions)
    return refusals_.refuse_field("output.dimensions", "%u, at most %u", output.dimensions, route.dimensions);
  const TaskTraits& task = traits(route.task);
  const bool normalized = output.normalize.value_or(route.normalize);
  const bool byte = DType(output.dtype) == DType::kInt8 || DType(output.dtype) == DType::kUint8;
  if (byte && !normalized && task.form == AnswerForm::kVector)
    return refusals_.refuse_field(
        "output.dtype",
        "DTYPE_INT8 (3) and DTYPE_UINT8 (4) can hold values from -1 to 1 only, and this embedding is not normalized; "
        "set normalize, or use DTYPE_FLOAT16");
  if (task.form == AnswerForm::kSparse && output.max_active_dims > sparse_weights(route.dimensions))
    return refusals_.refuse_field("output.max_active_dims", "%u, at most %u", output.max_active_dims,
                                  sparse_weights(route.dimensions));
  if (Refusal refusal = check_pair(view, r)) return refusal;
  if (view.input == Input::kTokenIds && task.spans)
    return refusals_.refuse_field("token_ids",
                                  "the model '%s' says where in a text its entities are; send the text itself", name);
  return {};
}

Refusal RequestChecker::check_pair(const RequestView& view, u32 r) {
  const char* why = traits(routes_[r].task).one_text;
  if (view.input != Input::kPair || !why) return {};
  return refusals_.refuse_field("pair", "2 texts, at most 1 for the model '%s', which %s", routes_.name(r), why);
}

// Of an option of another task.
Refusal RequestChecker::meaningless(const char* field, u32 value, u32 r) {
  return refusals_.refuse_field(field, "%u, but the model '%s' %s; leave it unset", value, routes_.name(r),
                                traits(routes_[r].task).does);
}

Refusal RequestChecker::check_generator(const RequestView& view, u32 r) {
  const Route& route = routes_[r];
  const GenerateOptions& options = view.generate;
  const char* name = routes_.name(r);
  if (Refusal refusal = check_pair(view, r)) return refusal;
  if (options.candidates() > 1)
    return refusals_.refuse_field(
        options.best_of > 1 ? "generate.best_of" : "generate.n",
        "%u, at most 1 for an item of a batch or a stream: send each choice as an item, with a seed of its own",
        options.candidates());
  const u32 beside = options.lowers_max_tokens ? route.prefix_tokens + route.max_input_tokens : 0;
  if (const u32 most = route.max_output_tokens + beside; options.max_tokens > most)
    return refusals_.refuse_field("generate.max_tokens", "%u, at most %u", options.max_tokens, most);
  const u32 max_tokens = answer_limit(options, route);
  if (options.min_tokens > max_tokens && !options.prompt_alone() &&
      view.input != Input::kStep)  // an edge's may be the checkpoint's own
    return refusals_.refuse_field("generate.min_tokens", "%u, at most max_tokens, %u", options.min_tokens, max_tokens);
  if (TokenAnswer::bytes(max_tokens, options.top_logprobs) > answer_room_)
    return refusals_.refuse_field("generate.top_logprobs", "%u, at most %u for %u tokens", options.top_logprobs,
                                  u32(answer_room_ / TokenAnswer::bytes(max_tokens, 0)) - 1, max_tokens);
  if (options.stop.count && !routes_.setup(r).detokenizer)
    return refusals_.refuse_field(
        "generate.stop", "the model '%s' has no tokenizer, so stop strings cannot be found; use stop_token_ids", name);
  return check_token_options(view, r);
}

Refusal RequestChecker::check_token_options(const RequestView& view, u32 r) {
  const u32 vocab = routes_[r].vocab_size;
  const IdList& given = view.generate.stop_ids;
  StopIds stops;
  if (const u32 n = stop_ids(view, routes_.setup(r).detokenizer.get(), stops); n > IdList::kMax)
    return refusals_.refuse_field("generate.stop",
                                  "%u of the strings are special tokens, at most %u beside %u stop_token_ids",
                                  n - given.count, IdList::kMax - given.count, given.count);
  const auto unknown = [vocab](u32 id) { return id >= vocab; };
  Refusal refusal;
  any_option(kGenerateOptions, [&](const auto& row) {
    if constexpr (std::is_same_v<typename std::decay_t<decltype(row)>::Value, IdList>) {
      const std::span<const u32> ids = (view.generate.*row.member).all();
      if (const auto id = std::find_if(ids.begin(), ids.end(), unknown); id != ids.end())
        return refusal = refusals_.refuse_field(row.path, "id %u, the vocabulary has %u", *id, vocab), true;
    }
    return false;
  });
  if (refusal) return refusal;
  if (const u32 n = view.generate.logit_bias.count) {
    TokenBias biases[kLogitBiasMax];
    logit_bias(view, biases);
    const auto known = [&](const TokenBias& each) { return each.id < vocab; };
    if (const TokenBias* found = std::find_if_not(biases, biases + n, known); found != biases + n)
      return refusals_.refuse_field("generate.logit_bias", "token %u, the vocabulary has %u", found->id, vocab);
  }
  const std::span<const u32> suppressed_ids = view.generate.suppress_ids.all();
  const std::vector<u32>& forced = routes_.setup(r).forced_ids;
  const auto suppressed = [&](u32 id) {
    return std::find(suppressed_ids.begin(), suppressed_ids.end(), id) != suppressed_ids.end();
  };
  if (!forced.empty() && std::all_of(forced.begin(), forced.end(), suppressed))
    return refusals_.refuse_field(
        "generate.suppress_token_ids",
        "%zu ids, with all %zu that the checkpoint's forced_eos_token_id forces; leave one of those out",
        suppressed_ids.size(), forced.size());
  return {};
}

namespace {

// Of the slots, so much for each class below the highest is kept for those above it.
constexpr u32 kReservedPart = 16;

}  // namespace

ItemTime Admission::time_of(const RequestView& view, const Origin& from) const {
  constexpr u64 kLongestUs = u64(3650) * 86400 * 1'000'000;  // ten years: the sums below cannot overflow
  const u64 received = from.info->receive_ns;
  const auto after = [received](u64 ns) { return ns ? received + ns : Deadlines::kNone; };
  const auto time = [](u64 due, u64 last, TimeBound bound) {
    return ItemTime{due == Deadlines::kNone ? 0 : due, last == Deadlines::kNone ? 0 : last, bound};
  };
  const bool grouped = from.group != Groups::kNone;
  const u64 call = from.info->deadline_ns ? from.info->deadline_ns : Deadlines::kNone;
  const u64 own = std::min(call, after(std::min(view.timeout_us, kLongestUs) * 1000)),
            most = after(tables_.options.times().most_ns());
  // A stream's deadline says nothing of one request.
  if (view.timeout_us || (call != Deadlines::kNone && !(grouped && tables_.groups.streams(from.group)))) {
    const u64 last = std::min(own, most);
    return time(last, last, most < own ? TimeBound::kMax : TimeBound::kOwn);
  }
  if (!tables_.options.times().default_ns) return time(call, call, TimeBound::kOwn);
  if (!grouped || !tables_.groups.open_items(from.group)) {
    const u64 last = std::min(call, after(tables_.options.times().default_ns));
    return time(last, last, TimeBound::kDefault);
  }
  const u64 last = std::min(call, most),
            due = tables_.groups.due_ns(from.group, received, tables_.options.times().default_ns);
  return time(std::min(due, last), last, TimeBound::kDefault);
}

Refusal Admission::check(const RequestView& view, u32 r, TenantId tenant, const Origin& from, u64 now,
                         const ItemTime& time) {
  const Route& route = tables_.memory.route(r);
  if (time.due_ns && time.due_ns <= now) {
    bump(tables_.memory.stats.expired[kReceive]);
    return tables_.refusals.refuse_late(kStageNames[kReceive], time.bound, time.due_ns - from.info->receive_ns);
  }
  if (!route.dispatchers.load(kRelaxed))
    return tables_.refusals.refuse(StatusCode::kUnavailable, "no dispatcher of this model is left");
  const u32 kind = class_of(u8(view.priority));
  // A generation of few tokens takes less time than the usual one. The usual length is not known, so the route's limit
  // stands for it.
  const u32 most = route.max_output_tokens;
  const double share = most ? double(answer_limit(view.generate, route)) / most : 1;
  const u64 before = ahead(r, kind, tenant), predicted = tables_.loads.predicted_ns(r, kind, share, before);
  if (tables_.loads.full(r, kind) && !has_few(r, kind, tenant, from)) {
    bump(tables_.memory.stats.rejected[kRejectQueueFull]);
    if (Refusal refusal = tables_.fit.check_room(from.group, route.max_queue_items, "--max-queue-items"))
      return refusal;
    Refusal refusal =
        tables_.refusals.refuse(StatusCode::kResourceExhausted, "the queue is full: %u items of class %s%s wait",
                                route.max_queue_items, kPriorityNames[kind], kind == kHigh ? "" : " or higher");
    refusal.retry_after_ns(predicted);
    return refusal;
  }
  if (Refusal refusal = check_share(r, kind, tenant, from, predicted)) return refusal;
  if (time.due_ns && predicted > time.due_ns - now)
    return check_late({r, kind, share, before, predicted}, from, now, time);
  return {};
}

Refusal Admission::check_late(const Late& late, const Origin& from, u64 now, const ItemTime& time) {
  u64 predicted = late.predicted_ns, left = time.due_ns - now;
  if (time.bound == TimeBound::kDefault && from.group != Groups::kNone) {
    // Every answer to an item of its call begins its time anew: only the others' items count.
    const u64 own = tables_.groups.open_items(from.group);
    const u64 others =
        tables_.loads.predicted_ns(late.route, late.kind, late.share, late.ahead - std::min(late.ahead, own));
    const u64 most = time.last_ns ? time.last_ns - now : Deadlines::kNone;
    if (others <= left && predicted <= most) return {};
    if (others > left)
      predicted = others;
    else
      left = most;
  }
  bump(tables_.memory.stats.rejected[kRejectPredictedMiss]);
  const u64 received = from.info->receive_ns;
  if (Refusal refusal = tables_.fit.check(from.group, late.route, received, time.last_ns, time.bound)) return refusal;
  Refusal refusal = tables_.refusals.refuse(
      StatusCode::kResourceExhausted, "would miss its deadline: about %llu ms to an answer, %llu ms left",
      (unsigned long long)(predicted / 1'000'000), (unsigned long long)(left / 1'000'000));
  refusal.retry_after_ns(predicted - left);
  return tables_.refusals.name_limit(refusal, time.bound, now + left - received);
}

// Items of its class that are served before a new one of this tenant: those in rings; and while the tenant's own are
// served, as many of each other tenant's. Doors take turns, too.
u64 Admission::ahead(u32 r, u32 kind, TenantId tenant) const {
  const u64 held_back = tables_.loads.held_back(r, kind);
  if (!held_back) return tables_.loads.in_rings(r, kind);
  const u64 own = tables_.items.counts.waiting_of(tenant, r, kind), weight = tables_.tenants.weight(tenant);
  const u64 doors = std::max<u64>(1, tables_.loads.holding_doors(r, kind));
  const u64 sharers =
      own ? own * std::max(weight, tables_.room.weights(r, kind)) / weight : tables_.room.before(r, kind, tenant);
  return tables_.loads.in_rings(r, kind) + std::min(held_back, sharers * doors);
}

// Whether a tenant has few waiting items next to the one with most here. A full queue takes its next one all the same,
// and another one makes way: many greedy tenants together leave no place free. Of a batch only the first: it may fail
// as a whole, and would have pushed others out for nothing.
bool Admission::has_few(u32 r, u32 kind, TenantId tenant, const Origin& from) const {
  const u32 waiting = tables_.items.counts.waiting(tenant, r, kind);
  return !from.batch_slots &&
         transport::Shares::little(double(waiting) / tables_.tenants.weight(tenant), tables_.room.most(r, kind));
}

// Rejects an item if its tenant already has its share of the queue or of the slots. A batch whose tenant has no other
// items is exempt and may use all free places: otherwise one as large as a small queue would be rejected at every
// retry, even by an idle server.
Refusal Admission::check_share(u32 r, u32 kind, TenantId tenant, const Origin& from, u64 predicted_ns) {
  const u32 all = tables_.memory.segment.sizes().slots, left = all - tables_.slots.used(),
            reserved = all * kind / kReservedPart;
  const u32 waiting = tables_.items.counts.waiting(tenant, r, kind), held = tables_.items.counts.slots(tenant, kind);
  const u64 free = tables_.loads.free(r, kind);
  const bool whole = from.batch_slots && held <= from.batch_slots;  // all that its tenant has is of this batch
  Refusal refusal;
  Reject why = kRejectTenant;
  if (waiting > from.batch_slots && transport::Shares::over(waiting, free) && !has_few(r, kind, tenant, from)) {
    refusal = tables_.refusals.refuse(
        StatusCode::kResourceExhausted,
        "this tenant has its share of the queue: %u of its items wait, and %llu places are free", waiting,
        (unsigned long long)free);
  } else if (left && held > from.batch_slots && transport::Shares::over(held, left)) {
    refusal = tables_.refusals.refuse(StatusCode::kResourceExhausted,
                                      "this tenant has its share of this front door's %u slots: %u", all, held);
  } else if (left && left <= reserved && !whole) {
    why = kRejectSlots;
    refusal =
        tables_.refusals.refuse(StatusCode::kResourceExhausted,
                                "the last %u of this front door's %u slots are for higher classes", reserved, all);
  } else {
    return {};
  }
  bump(tables_.memory.stats.rejected[why]);
  refusal.retry_after_ns(predicted_ns);
  return refusal;
}

Refusal Admission::no_slot(u32 route, u32 kind, u32 group) {
  bump(tables_.memory.stats.rejected[kRejectSlots]);
  if (Refusal refusal = tables_.fit.check_room(group, tables_.memory.segment.sizes().slots, "--slots")) return refusal;
  Refusal refusal =
      tables_.refusals.refuse(StatusCode::kResourceExhausted, "all %u slots of this front door are in use",
                              tables_.memory.segment.sizes().slots);
  refusal.retry_after_ns(tables_.loads.predicted_ns(route, kind));
  return refusal;
}

}  // namespace fastqps::service
