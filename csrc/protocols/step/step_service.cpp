#include "protocols/step/step_service.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "core/layout.h"
#include "service/tables/tables.h"

namespace fastqps::protocols {

namespace {

template <class T>
std::span<const u8> bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const u8*>(values.data()), values.size_bytes()};
}

// A part of a generation, or all of it.
edge::StepRow of_tokens(u64 request_id, const GenerationView& tokens, const Timings* timings) {
  edge::StepRow response{.item = u32(request_id),
                         .kind = u32(Answer::kTokens),
                         .n_values = u32(tokens.token_ids.size()),
                         .values = {bytes_of(tokens.token_ids), bytes_of(tokens.logprobs), bytes_of(tokens.top.ids),
                                    bytes_of(tokens.top.logprobs)},
                         .finish = u32(tokens.finish_reason)};  // as Finish
  if (timings) response.queue_us = timings->us[2], response.device_us = timings->us[5];
  return response;
}

}  // namespace

static_assert(u8(FinishReason::kStop) == u8(Finish::kStop) && u8(FinishReason::kLength) == u8(Finish::kLength));

edge::StepRow StepWriter::of(const ResponseView& item) {
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
          .values = {slot.bytes},
          .batch_items = slot.batch_items,
          .queue_us = slot.queue_us,
          .device_us = slot.device_us};
}

edge::StepRow StepWriter::of(const ChunkView& chunk) {
  return of_tokens(chunk.request_id, chunk.generation, chunk.timings);
}

// write(out) writes a part of a message of at most `size` bytes, and returns its end.
template <class Write>
void StepMethod::send(transport::CallId call, size_t size, Write write) {
  u8* out = path_.attachment->begin_message(call, size + edge::kChecksumBytes);
  if (!out) return;
  u8* end = edge::seal_step_message(out, write(out));
  path_.attachment->commit_message(call, size_t(end - out));
}

// A message of which only a part was taken comes again. What comes before its items is done the first time.
transport::Took StepMethod::on_message(transport::CallId call, std::span<const u8> message,
                                       const transport::CallInfo& info) {
  const service::ReadTime time(message);
  if (const char* why = reader_.read(message))
    return end_call(call, info, StatusCode::kDataLoss, "a message cannot be read: %s", why), transport::Took::kAll;
  if (reader_.has_hello()) begin(call, info);
  if (!path_.attachment->alive(call)) return transport::Took::kAll;
  if (!info.user && !reader_.has_hello())
    return end_call(call, info, StatusCode::kFailedPrecondition, "the first message has no hello"),
           transport::Took::kAll;
  if (reader_.has_hello()) return transport::Took::kAll;
  const u32 g = u32(info.user - 1);
  service::Group& group = path_.groups[g];
  group.active_ns = info.receive_ns;
  if (!group.taken) {
    if (reader_.echo()) send_load(g, call, reader_.echo());
    if (!reader_.cancels().empty()) path_.withdrawals.cancel(g, reader_.cancels());
    if (!path_.attachment->alive(call)) return transport::Took::kAll;
  }
  return take_items(g, call, info, message.size(), time.ns());
}

// Answers the hello: the call is for one model in one version.
void StepMethod::begin(transport::CallId call, const transport::CallInfo& info) {
  const edge::StepHello& hello = reader_.hello();
  if (info.user || reader_.items())
    return end_call(call, info, StatusCode::kFailedPrecondition,
                    info.user ? "a second hello" : "the message with the hello has items");
  if (hello.protocol != edge::kStepProtocol)
    return end_call(call, info, StatusCode::kFailedPrecondition,
                    "the edge speaks protocol %u of StepService, this server (fastqps %s) %u: update the older one",
                    hello.protocol, server_.c_str(), edge::kStepProtocol);
  const i32 found = routes_.find(hello.model);
  const int shown_bytes = shown(hello.model);
  if (found == service::ModelRoutes::kUnknown)
    return end_call(call, info, StatusCode::kNotFound, "'%.*s' is not served here; served: %s", shown_bytes,
                    hello.model.data(), routes_.names().c_str());
  if (found == service::ModelRoutes::kStarting)
    return end_call(call, info, StatusCode::kUnavailable, "the model is starting");
  const Route& route = routes_[u32(found)];
  if (!serves(hello.version, u32(found)))
    return end_call(call, info, StatusCode::kFailedPrecondition, "it serves %s@%s, the edge asks for %.*s@%.*s",
                    routes_.name(u32(found)), route.version, shown_bytes, hello.model.data(), shown(hello.version),
                    hello.version.data());
  std::string context = std::string(hello.model) + '\0' + std::string(hello.version);
  path_.groups.open(call, {service::GroupKind::kRows, kSteps, &writer_, 0, context}, info);
  const edge::StepReady ready{.max_input_tokens = route.max_input_tokens,
                              .max_output_tokens = route.max_output_tokens,
                              .max_inflight = path_.inflight_max,
                              .server = server_};
  send(call, edge::step_ready_size(ready), [&](u8* out) { return edge::write_step_ready(ready, out); });
}

bool StepMethod::serves(std::string_view version, u32 route) const {
  const char* own = routes_[route].version;
  return version == std::string_view(own, strnlen(own, sizeof(Route::version)));
}

// read_ns: what reading the message has taken. Its next part reads it again, so this one takes items for as long.
transport::Took StepMethod::take_items(u32 g, transport::CallId call, const transport::CallInfo& info,
                                       size_t message_bytes, u64 read_ns) {
  const u32 n = reader_.items();
  const u64 until = n > 1 ? now_ns() + read_ns : 0;
  const std::string_view context = path_.groups[g].context;
  const std::string_view model = context.substr(0, context.find('\0'));
  const i32 found = n ? routes_.find(model) : 0;
  const bool served = n && found >= 0 && serves(context.substr(model.size() + 1), u32(found));
  // Other servers have the edge's version still, and this one ends the call with its last answer.
  if (n && !served) path_.groups[g].closing = true;
  for (u32 i = path_.groups[g].taken; i < n; i++) {
    take_item(reader_.item(i), model, served ? &routes_[u32(found)] : nullptr, g, call, info);
    if (!path_.attachment->alive(call)) return transport::Took::kAll;
    path_.groups[g].taken = i + 1;
    if (i + 1 < n && path_.attachment->slice_over(message_bytes / n) && now_ns() >= until)
      return transport::Took::kPart;
  }
  service::Group& group = path_.groups[g];
  group.taken = 0;
  if (group.open && (group.in_flight() > path_.inflight_max || !path_.attachment->writable(call))) path_.groups.hold(g);
  return transport::Took::kAll;
}

// route: nullptr if the edge's version is not served any more.
void StepMethod::take_item(const edge::StepItem& item, std::string_view model, const Route* route, u32 g,
                           transport::CallId call, const transport::CallInfo& info) {
  service::Group& group = path_.groups[g];
  const service::Origin from{call, &info, kSteps, g, group.items++, 0, (item.options.flags & kProgress) != 0};
  group.unanswered++;
  RequestView view;
  const auto read = [&](RequestView& taken) {
    taken.model = model;
    taken.request_id = item.number;
    if (route) fill(item, *route, taken);
    return FieldError{};
  };
  if (!route) {
    read(view);
    return path_.answers.refuse(from, view, {.code = StatusCode::kUnavailable, .message = "the model was reloaded"});
  }
  if (const service::Refusal refusal = path_.intake.accept(read, from, view)) path_.answers.refuse(from, view, refusal);
}

void StepMethod::fill(const edge::StepItem& item, const Route& route, RequestView& view) const {
  const edge::StepOptions& options = item.options;
  view.input = Input::kStep;
  view.tokens = item.ids;
  view.token_count = u32(item.ids.size());
  view.first_tokens = item.first_len;
  view.timeout_us = item.timeout_us;
  view.priority = options.priority;
  view.tenant = item.tenant;
  view.group = item.group;
  view.span = item.span;
  view.trace_state = item.trace_state;
  view.has_output = true;
  OutputOptions& output = view.output;
  output.dtype = options.dtype;
  (traits(route.task).form == AnswerForm::kSparse ? output.max_active_dims : output.dimensions) = options.dimensions;
  output.top_labels = options.top_labels;
  if (options.flags & kNormalizeSet) output.normalize = options.flags & kNormalize;
  output.raw_scores = options.flags & kRawScores;
  output.aggregation = options.aggregation;
  output.timings = item.generate != nullptr;  // the edge learns from them how long it waited
  if (!item.generate) return;
  view.has_generate = true;
  GenerateOptions& generate = view.generate;
  static_cast<Sampling&>(generate) = *item.generate;
  generate.given = ~u32(0);
  if (!(options.flags & kPromptLogprobs)) generate.forget(kPromptLogprobsField);
  generate.ignore_eos = options.flags & kIgnoreEos;
  generate.logprobs = options.flags & kLogprobs;
  view.attached = item.attached;
}

void StepMethod::on_half_close(transport::CallId call, const transport::CallInfo& info) {
  if (info.user) return path_.groups.half_close(u32(info.user - 1));
  end_call(call, info, StatusCode::kFailedPrecondition, "the call has no hello");
}

bool StepMethod::on_idle(transport::CallId, u64 user) {
  const u32 g = u32(user - 1);
  if (user && !path_.groups[g].all_sent()) return false;
  if (user) path_.groups.end(g, {.code = StatusCode::kUnavailable, .message = "the edge was silent: open it again"});
  return true;
}

void StepMethod::end_call(transport::CallId call, const transport::CallInfo& info, StatusCode code, const char* format,
                          ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (info.user) {
    const u32 g = u32(info.user - 1);
    path_.withdrawals.abandon_items(g);
    return path_.groups.end(g, {.code = code, .message = text});
  }
  path_.attachment->finish(call, {.code = code, .message = text});
  path_.counts.call(routes_.first(), kSteps, code, info.receive_ns);
}

void StepMethod::send_load(u32 group, transport::CallId call, u64 echo) {
  constexpr double kLeastUtilization = 0.05;  // below that the quotient says little
  const LoadLine& line = memory_.segment.load();
  const fastqps::Phase phase = memory_.segment.supervisor().phase.load(kRelaxed);  // relaxed: a report, as all of it
  const double utilization = line.utilization.load(kRelaxed), items_per_s = line.requests_per_second.load(kRelaxed);
  const edge::StepLoad load{
      .echo = echo,
      .utilization_thousandth = u32(1000 * std::clamp(utilization, 0.0, 1e6)),
      .waiting = u32(line.items_waiting.load(kRelaxed)),
      .running = u32(line.items_running.load(kRelaxed)),
      .draining = phase != fastqps::Phase::kServing && phase != fastqps::Phase::kStarting,
      .items_per_s = utilization < kLeastUtilization ? 0 : u32(std::min(items_per_s / utilization, 1e9))};
  path_.groups.flush_rows(group);
  send(call, edge::step_load_size(load), [&](u8* out) { return edge::write_step_load(load, out); });
}

}  // namespace fastqps::protocols
