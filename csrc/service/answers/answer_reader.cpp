#include "service/answers/answer_reader.h"

#include <algorithm>
#include <cstring>

#include "contract/utf8.h"
#include "service/answers/slot_events.h"

namespace fastqps::service {

Refusal AnswerReader::read_refusal(u32 slot, Verdict verdict) {
  switch (verdict) {
    case Verdict::kPoison:
      return refusals_.refuse(StatusCode::kInternal, "the request broke its dispatcher");
    case Verdict::kBroken:
      if (const Generation* generation = generations_.find(slot); generation && generation->begun)
        return refusals_.refuse(StatusCode::kInternal,
                                "the dispatcher died: the stream had begun, so it cannot run again");
      return refusals_.refuse(StatusCode::kInternal, "the dispatcher died while the request ran");
    case Verdict::kUnavailable:
      return refusals_.refuse(StatusCode::kUnavailable, "the request could not be queued again");
    case Verdict::kDone:
      break;
  }
  return read_status(slot);
}

Refusal AnswerReader::read_status(u32 slot) {
  const u16 code = slots_.slot(slot).status;
  if (slots_.slot(slot).kind == Answer::kRefusal && slots_.slot(slot).n_values) return read_reason(slot);
  const Item& item = items_[slot];
  const u64 last = slots_.slot(slot).deadline_ns, length_ns = last - item.received_ns;
  if (code == u16(StatusCode::kDeadlineExceeded)) {
    bump(memory_.stats.expired[kQueue]);
    return refusals_.refuse_late(kStageNames[kQueue], item.bound, length_ns);
  }
  if (code == u16(StatusCode::kResourceExhausted)) {
    bump(memory_.stats.rejected[kRejectPredictedMiss]);
    if (Refusal refusal = fit_.check(item, last)) return refusal;
    items_.shares.refused(items_.tenant(slot));
    Refusal refusal =
        refusals_.refuse(StatusCode::kResourceExhausted, "would miss its deadline: its batch would take too long");
    refusal.retry_after_ns(loads_.predicted_ns(item.route, class_of(item.priority)), 2);
    return refusals_.name_limit(refusal, item.bound, length_ns);
  }
  return refusals_.refuse(code < kStatusCodes ? StatusCode(code) : StatusCode::kInternal,
                          "the dispatcher gave the request up");
}

// A reason in the words of a dispatcher, or of a server behind it.
Refusal AnswerReader::read_reason(u32 slot) {
  Slot& s = slots_.slot(slot);
  const std::span<const u8> room = memory_.segment.answer_room(s);
  u32 retry_after_ms = 0;
  const size_t bytes = std::min<size_t>(s.n_values, room.size() - sizeof retry_after_ms);
  std::memcpy(&retry_after_ms, room.data(), sizeof retry_after_ms);
  const std::string_view text(reinterpret_cast<const char*>(room.data()) + sizeof retry_after_ms, bytes);
  const u16 code = s.status;
  if (code == u16(StatusCode::kDeadlineExceeded)) bump(memory_.stats.expired[kQueue]);
  if (code == u16(StatusCode::kResourceExhausted)) items_.shares.refused(items_.tenant(slot));
  Refusal refusal = refusals_.refuse(code < kStatusCodes ? StatusCode(code) : StatusCode::kInternal, "%s",
                                     text::repaired_utf8(text).c_str());
  if (retry_after_ms) refusal.retry_after_ns(u64(retry_after_ms) * 1'000'000);
  return refusal;
}

bool AnswerReader::read(u32 slot, ResponseView& response, Timings& timings, Usage& usage) {
  const Item& item = items_[slot];
  Slot& s = slots_.slot(slot);
  const std::span<const u8> found = memory_.segment.answer_room(s);
  const u8* bytes = found.data();
  const u64 room = found.size(), n = s.n_values;
  if (item.method == kSteps) {
    const u64 size = answer_bytes(s.kind, s.answer_dtype, n);
    // Only an answer by token can be empty: of a text whose tokens all have none of their own.
    if ((!size && !traits(routes_[item.route].task).by_token) || size > room) return false;
    response.request_id = item.request_id;
    response.output = Output::kSlot;
    response.slot = read_slot(s, {bytes, size_t(size)});
    return true;
  }
  switch (s.kind) {
    case Answer::kFloats:
      if (u64(n) * sizeof(float) > room) return false;
      response.embedding = {{reinterpret_cast<const float*>(bytes), n}, {}, DType::kUnspecified};
      if (s.answer_dtype) response.embedding.dtype = DType::kFloat32;
      if (!read_vectors(slot, response)) return false;
      break;
    case Answer::kRaw: {
      u64 size = u64(n) * (s.answer_dtype == u8(DType::kFloat16) ? 2 : 1);
      if (size > room) return false;
      response.embedding = {{}, {bytes, size_t(size)}, DType(s.answer_dtype)};
      if (!read_vectors(slot, response)) return false;
      break;
    }
    case Answer::kLabels:
      if (u64(n) * sizeof(LabelScore) > room) return false;
      read_labels(item.route, reinterpret_cast<const LabelScore*>(bytes), u32(n));
      response.output = Output::kClassification;
      response.labels = labels_;
      break;
    case Answer::kTokenLabels:
      if (u64(n) * sizeof(LabelScore) > room) return false;
      if (!read_entities(slot, {reinterpret_cast<const LabelScore*>(bytes), n})) return false;
      response.output = Output::kEntities;
      response.entities = entities_.entities();
      break;
    case Answer::kSparse: {
      if ((1 + 2 * u64(n)) * sizeof(u32) > room) return false;
      const auto* words = reinterpret_cast<const u32*>(bytes);
      response.output = Output::kSparse;
      response.sparse = {{words + 1, n}, {reinterpret_cast<const float*>(words + 1 + n), n}, words[0]};
      break;
    }
    default:
      return false;
  }
  response.request_id = item.request_id;
  usage = read_usage(slot, 0);
  response.usage = &usage;
  if (s.flags & kWantTimings) {
    timings = read_timings(slot, true);
    response.timings = &timings;
  }
  return true;
}

SlotView AnswerReader::read_slot(const Slot& s, std::span<const u8> bytes) const {
  auto us = [](u64 from, u64 to) { return u32((to - std::min(from, to)) / 1000); };
  const bool vectors = s.kind == Answer::kFloats || s.kind == Answer::kRaw;  // others leave the dtype as it was
  return {u8(s.kind),
          vectors ? s.answer_dtype : u8(0),
          s.n_values,
          bytes,
          s.batch_items,
          us(s.queued_ns.load(kRelaxed), s.claimed_ns),
          us(s.launched_ns, s.finished_ns)};
}

// The values are one vector, or one after the other.
bool AnswerReader::read_vectors(u32 slot, ResponseView& response) {
  const Slot& s = slots_.slot(slot);
  const Route& route = routes_[items_[slot].route];
  const bool multi = traits(route.task).by_token;
  response.output = traits(route.task).output;
  if (multi) response.embedding.dimensions = s.dimensions ? s.dimensions : route.dimensions;
  return !multi || s.n_values % response.embedding.dimensions == 0;
}

void AnswerReader::read_labels(u32 route, const LabelScore* scores, u32 n) {
  const auto& names = routes_.setup(route).labels;
  labels_.clear();
  for (u32 i = 0; i < n; i++) {
    u32 k = scores[i].index;
    labels_.push_back({k < names.size() ? std::string_view(names[k]) : std::string_view(), scores[i].score, k});
  }
}

bool AnswerReader::read_entities(u32 slot, std::span<const LabelScore> labels) {
  const std::vector<std::string>& names = routes_.setup(items_[slot].route).labels;
  return entities_.make(slots_.slot(slot).aggregation, labels, spans_[slot], names);
}

Usage AnswerReader::read_usage(u32 slot, u32 output_tokens) {
  const Item& item = items_[slot];
  const u32 limit = item.truncated ? routes_.tokens_max(item.route, item.role) : 0;
  return {slots_.slot(slot).n_tokens.load(kRelaxed), output_tokens, item.truncated, limit};
}

Timings AnswerReader::read_timings(u32 slot, bool done) {
  const Item& item = items_[slot];
  const Slot& s = slots_.slot(slot);
  const u64 finished = done ? s.finished_ns : clock_.drain_ns, scattered = done ? s.scattered_ns : clock_.drain_ns;
  const u32 upstream_us = done && memory_.segment.sizes().upstreams ? s.upstream_us : 0;
  auto us = [](u64 from, u64 to) { return u32((to - std::min(from, to)) / 1000); };
  const u32 launch_us = us(s.gathered_ns, s.launched_ns);
  return {{item.parse_us, item.tokenize_us, us(s.queued_ns.load(kRelaxed), s.claimed_ns),
           us(s.claimed_ns, s.gathered_ns), launch_us - std::min(launch_us, upstream_us), us(s.launched_ns, finished),
           us(finished, scattered), us(scattered, clock_.drain_ns), upstream_us}};
}

}  // namespace fastqps::service
