#include "edge/slot_item.h"

#include <algorithm>
#include <cstring>

namespace fastqps::edge {
namespace {

constexpr u8 kPriorityOf[] = {3, 2, 1};  // fastqps.v1.Priority, by Class

StepOptions options_of(const Route& route, const Slot& slot, u32 kind) {
  StepOptions options;
  options.dtype = slot.dtype;
  options.flags = slot.flags;
  if (traits(route.task).options & kAggregationOption) options.aggregation = u8(slot.aggregation);
  if (kind < kPriorities) options.priority = kPriorityOf[kind];
  options.top_labels = slot.top_labels;
  options.dimensions = u16(slot.dimensions);
  return options;
}

// Microseconds that are left, rounded up; 0: none are set.
u32 timeout_of(u64 deadline_ns, u64 now_ns) {
  if (!deadline_ns) return 0;
  const u64 left = deadline_ns > now_ns ? (deadline_ns - now_ns + 999) / 1000 : 1;
  return u32(std::min<u64>(left, ~u32(0)));
}

// Whether the answer has the form that the request asks for.
bool has_form(const Route& route, const StepRow& answer, u32 n_tokens, const Slot& slot) {
  const u32 n = answer.n_values;
  const bool raw = Answer(answer.kind) == Answer::kRaw;
  if (answer.kind > u32(Answer::kRefusal) || answer.dtype > 6 || raw != (answer.dtype > 1)) return false;
  const bool vector = raw || Answer(answer.kind) == Answer::kFloats;
  const u32 dimensions = slot.dimensions ? std::min(slot.dimensions, route.dimensions) : route.dimensions;
  const u64 width = row_values(u8(answer.dtype), dimensions);
  const TaskTraits& task = traits(route.task);
  switch (task.form) {
    case AnswerForm::kVector:
      if (!task.by_token) return vector && n == width;
      return vector && width && n % width == 0 && n / width <= n_tokens;
    case AnswerForm::kLabels:
      if (!task.by_token) return Answer(answer.kind) == Answer::kLabels && n && n <= route.dimensions;
      return Answer(answer.kind) == Answer::kTokenLabels && n <= n_tokens;
    case AnswerForm::kSparse:
      return Answer(answer.kind) == Answer::kSparse && n <= sparse_weights(route.dimensions);
    case AnswerForm::kTokens:
      break;
  }
  return false;
}

}  // namespace

StepItem read_item(const Segment& segment, const Route& route, u32 number, const Claim& claim, u64 now_ns) {
  Slot& slot = segment.slot(claim.door, claim.slot);
  StepItem item{.number = number,
                .ids = {segment.ids(slot), claim.n_tokens},
                .first_len = std::min(slot.first_len, claim.n_tokens),
                .timeout_us = timeout_of(slot.deadline_ns, now_ns),
                .options = options_of(route, slot, claim.kind)};
  if (segment.sizes().caller_bytes) {
    const CallerContext& names = segment.caller(slot);
    item.tenant = {names.tenant, std::min<size_t>(names.tenant_bytes, sizeof names.tenant)};
    item.group = {names.group, std::min<size_t>(names.group_bytes, sizeof names.group)};
    constexpr u8 kNone[sizeof names.span.span_id] = {};
    if (std::memcmp(names.span.span_id, kNone, sizeof kNone)) {
      item.span = &names.span;
      item.trace_state = {names.state, std::min<size_t>(names.state_bytes, sizeof names.state)};
    }
  }
  if (!generates(route.task)) return item;
  item.generate = &slot.sampling;
  for (u32 kind = 0; kind < kAttachmentKinds; kind++)
    item.attached[kind] = segment.attached(claim.door, slot, AttachmentKind(kind));
  return item;
}

bool row_fits(const Segment& segment, const Route& route, const StepRow& answer, u32 n_tokens, Slot& slot) {
  if (!has_form(route, answer, n_tokens, slot)) return false;
  const u64 bytes = answer_bytes(Answer(answer.kind), u8(answer.dtype), answer.n_values);
  return bytes == answer.values[0].size() && bytes <= segment.answer_room(slot).size();
}

void write_row(const Segment& segment, const StepRow& answer, Slot& slot) {
  std::copy(answer.values[0].begin(), answer.values[0].end(), segment.answer_room(slot).begin());
  slot.status = 0;
  slot.kind = Answer(answer.kind);
  slot.answer_dtype = u8(answer.dtype);
  slot.n_values = answer.n_values;
  slot.batch_items = answer.batch_items;
}

// Tokens that the client may have already are compared with what is in the slot.
Written write_tokens(const Segment& segment, const Route& route, const StepRow& answer, u32 before, Slot& slot) {
  const u32 scored = scored_tokens(slot, slot.n_tokens.load(kRelaxed));  // relaxed: it is claimed
  const TokenAnswer out(segment.answer_room(slot), scored + slot.sampling.max_tokens, slot.sampling.top_logprobs);
  const u32 n = answer.n_values, end = before + n;
  const bool logprobs = slot.flags & kLogprobs;
  const u64 token_bytes = logprobs ? TokenAnswer::token_bytes(out.top()) : sizeof(u32);
  const std::span<const u8> values = answer.values[0];
  if (Answer(answer.kind) != Answer::kTokens || values.size() != n * token_bytes || end < before ||
      end > std::min(out.max_tokens(), scored + route.max_output_tokens) || answer.finish > u32(Finish::kLength) || !n)
    return Written::kBroken;
  const u32 made = slot.n_made.load(kRelaxed);  // relaxed: our own word
  const u32 known = made > before ? std::min(made - before, n) : 0, from = before + known, more = n - known;
  if (std::memcmp(out.ids(before, known).data(), values.data(), known * sizeof(u32))) return Written::kOther;
  // The columns stand one behind the other.
  const u8* column = values.data();
  const auto take = [&](const auto& to, u32 each) {
    std::memcpy(to.data(), column + u64(known) * each * sizeof(u32), to.size_bytes());
    column += u64(n) * each * sizeof(u32);
  };
  take(out.ids(from, more), 1);
  if (logprobs) {
    take(out.logprobs(from, more), 1);
    take(out.top_ids(from, more), out.top());
    take(out.top_logprobs(from, more), out.top());
  }
  if (!answer.finish) {
    if (end > made) slot.n_made.store(u32(end), kRelease);  // pairs with the front door's load: they are readable
    return Written::kPart;
  }
  if (end <= made) return Written::kOther;  // the last token comes with DONE
  slot.status = 0;
  slot.kind = Answer::kTokens;
  slot.n_values = u32(end);
  slot.finish = Finish(answer.finish);
  slot.batch_items = answer.batch_items;
  return Written::kDone;
}

void write_times(const StepRow& answer, u64 claimed_ns, u64 sent_ns, u64 now_ns, Slot& slot) {
  const u64 away = now_ns - std::min(now_ns, sent_ns);
  const u64 queue = std::min(away, u64(answer.queue_us) * 1000);
  const u64 device = std::min(away - queue, u64(answer.device_us) * 1000);
  const u64 wire = away - queue - device;
  slot.claimed_ns = claimed_ns + queue;
  slot.gathered_ns = sent_ns + queue;
  slot.launched_ns = slot.gathered_ns + wire;
  slot.finished_ns = slot.launched_ns + device;
  slot.scattered_ns = now_ns;
  slot.upstream_us = u32(wire / 1000);
}

}  // namespace fastqps::edge
