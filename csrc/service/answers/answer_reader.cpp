#include "service/answers/answer_reader.h"

#include <algorithm>
#include <cstring>

#include "contract/utf8.h"

namespace fastqps::service {

namespace {

u32 us(u64 from, u64 to) { return u32((to - std::min(from, to)) / 1000); }

constexpr std::string_view kOutside = "O";  // no entity

bool begins(std::string_view label) { return label.starts_with("B-"); }

// By which neighbours belong together: without B- or I-.
std::string_view kind_of(std::string_view label) {
  return begins(label) || label.starts_with("I-") ? label.substr(2) : label;
}

// The option that a dispatcher's reason begins with, as RefusalWriter::refuse_field() writes it; empty: none.
std::string_view option_in(std::string_view message) {
  const std::string_view field = message.substr(0, message.find(": "));
  std::string_view found;
  any_option(kGenerateOptions, [&](const auto& row) { return field == row.path && (found = row.path, true); });
  return found;
}

// A joined entity's: without whatever stands in front of the first hyphen.
std::string_view name_of(std::string_view label) { return label.substr(label.find('-') + 1); }

}  // namespace

bool EntityMaker::make(Aggregation aggregation, std::span<const LabelScore> labels,
                       std::span<const text::TokenSpan> spans, const std::vector<std::string>& names) {
  entities_.clear();
  group_ = {};
  size_t token = 0;
  for (const LabelScore& label : labels) {
    if (token == spans.size() || label.index >= names.size()) return false;
    const size_t first = token++;
    while (labels_words(aggregation) && token < spans.size() && spans[token].continues_word) token++;
    if (spans[first].begin == text::kNoPart.begin) continue;
    const text::TokenSpan span{spans[first].begin, spans[token - 1].end, 0};
    aggregation == Aggregation::kNone ? add(names[label.index], label.score, span)
                                      : join(names[label.index], label.score, span);
  }
  close();
  return token == spans.size();
}

void EntityMaker::add(std::string_view label, float score, text::TokenSpan span) {
  if (label != kOutside) entities_.push_back({label, score, span.begin, span.end});
}

// Another one of the same kind belongs to the last, unless it says that it begins one.
void EntityMaker::join(std::string_view label, float score, text::TokenSpan span) {
  const std::string_view kind = kind_of(label);
  if (!group_.n || kind != group_.kind || begins(label)) {
    close();
    group_ = {.label = label, .kind = kind, .span = span};
  }
  group_.score += score;
  group_.n++;
  group_.span.end = span.end;
}

void EntityMaker::close() {
  if (group_.n) add(name_of(group_.label), group_.score / float(group_.n), group_.span);
  group_ = {};
}

Refusal AnswerReader::read_refusal(u32 slot, Verdict verdict) {
  switch (verdict) {
    case Verdict::kPoison:
      return tables_.refusals.refuse(StatusCode::kInternal, "the request broke its dispatcher");
    case Verdict::kBroken:
      if (const Generation* generation = tables_.items.generations.find(slot); generation && generation->begun)
        return tables_.refusals.refuse(StatusCode::kInternal,
                                       "the dispatcher died: the stream had begun, so it cannot run again");
      return tables_.refusals.refuse(StatusCode::kInternal, "the dispatcher died while the request ran");
    case Verdict::kUnavailable:
      return tables_.refusals.refuse(StatusCode::kUnavailable, "the request could not be queued again");
    case Verdict::kDone:
      break;
  }
  return read_status(slot);
}

Refusal AnswerReader::read_status(u32 slot) {
  const u16 code = tables_.slots.slot(slot).status;
  if (tables_.slots.slot(slot).kind == Answer::kRefusal && tables_.slots.slot(slot).n_values) return read_reason(slot);
  const Item& item = tables_.items[slot];
  const u64 last = tables_.slots.slot(slot).deadline_ns, length_ns = last - item.received_ns;
  if (code == u16(StatusCode::kDeadlineExceeded)) {
    bump(tables_.memory.stats.expired[kQueue]);
    return tables_.refusals.refuse_late(kStageNames[kQueue], item.bound, length_ns);
  }
  if (code == u16(StatusCode::kResourceExhausted)) {
    bump(tables_.memory.stats.rejected[kRejectPredictedMiss]);
    if (Refusal refusal = tables_.fit.check(item, last)) return refusal;
    tables_.items.shares.refused(tables_.items.tenant(slot));
    Refusal refusal = tables_.refusals.refuse(StatusCode::kResourceExhausted,
                                              "would miss its deadline: its batch would take too long");
    refusal.retry_after_ns(tables_.loads.predicted_ns(item.route, class_of(item.priority)), 2);
    return tables_.refusals.name_limit(refusal, item.bound, length_ns);
  }
  return tables_.refusals.refuse(code < kStatusCodes ? StatusCode(code) : StatusCode::kInternal,
                                 "the dispatcher gave the request up");
}

// A reason in the words of a dispatcher, or of a server behind it.
Refusal AnswerReader::read_reason(u32 slot) {
  Slot& s = tables_.slots.slot(slot);
  const std::span<const u8> room = tables_.memory.segment.answer_room(s);
  u32 retry_after_ms = 0;
  const size_t bytes = std::min<size_t>(s.n_values, room.size() - sizeof retry_after_ms);
  std::memcpy(&retry_after_ms, room.data(), sizeof retry_after_ms);
  const std::string_view text(reinterpret_cast<const char*>(room.data()) + sizeof retry_after_ms, bytes);
  const u16 code = s.status;
  if (code == u16(StatusCode::kDeadlineExceeded)) bump(tables_.memory.stats.expired[kQueue]);
  if (code == u16(StatusCode::kResourceExhausted)) tables_.items.shares.refused(tables_.items.tenant(slot));
  Refusal refusal = tables_.refusals.refuse(code < kStatusCodes ? StatusCode(code) : StatusCode::kInternal, "%s",
                                            text::repaired_utf8(text).c_str());
  refusal.field = option_in(refusal.message);
  if (retry_after_ms) refusal.retry_after_ns(u64(retry_after_ms) * 1'000'000);
  return refusal;
}

bool AnswerReader::read(u32 slot, ResponseView& response, Timings& timings, Usage& usage) {
  const Item& item = tables_.items[slot];
  Slot& s = tables_.slots.slot(slot);
  const std::span<const u8> found = tables_.memory.segment.answer_room(s);
  const u8* bytes = found.data();
  const u64 n = s.n_values, size = answer_bytes(s.kind, s.answer_dtype, n);
  if (size > found.size()) return false;
  if (item.method == kSteps) {
    // Only an answer by token can be empty: of a text whose tokens all have none of their own.
    if (!size && !traits(tables_.routes[item.route].task).by_token) return false;
    response.request_id = item.request_id;
    response.output = Output::kSlot;
    response.slot = read_slot(s, {bytes, size_t(size)});
    return true;
  }
  switch (s.kind) {
    case Answer::kFloats:
      response.embedding = {{reinterpret_cast<const float*>(bytes), n}, {}, DType::kUnspecified};
      if (s.answer_dtype) response.embedding.dtype = DType::kFloat32;
      if (!read_vectors(slot, response)) return false;
      break;
    case Answer::kRaw:
      response.embedding = {{}, {bytes, size_t(size)}, DType(s.answer_dtype)};
      if (!read_vectors(slot, response)) return false;
      break;
    case Answer::kLabels:
      read_labels(item.route, reinterpret_cast<const LabelScore*>(bytes), u32(n));
      response.output = Output::kClassification;
      response.labels = labels_;
      break;
    case Answer::kTokenLabels:
      if (!read_entities(slot, {reinterpret_cast<const LabelScore*>(bytes), n})) return false;
      response.output = Output::kEntities;
      response.entities = entities_.entities();
      break;
    case Answer::kSparse: {
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
  const Slot& s = tables_.slots.slot(slot);
  const Route& route = tables_.routes[tables_.items[slot].route];
  const bool multi = traits(route.task).by_token;
  response.output = traits(route.task).output;
  if (multi) response.embedding.dimensions = s.dimensions ? s.dimensions : route.dimensions;
  return !multi || s.n_values % row_values(s.answer_dtype, response.embedding.dimensions) == 0;
}

void AnswerReader::read_labels(u32 route, const LabelScore* scores, u32 n) {
  const auto& names = tables_.routes.setup(route).card.labels;
  labels_.clear();
  for (u32 i = 0; i < n; i++) {
    u32 k = scores[i].index;
    labels_.push_back({k < names.size() ? std::string_view(names[k]) : std::string_view(), scores[i].score, k});
  }
}

bool AnswerReader::read_entities(u32 slot, std::span<const LabelScore> labels) {
  const std::vector<std::string>& names = tables_.routes.setup(tables_.items[slot].route).card.labels;
  return entities_.make(tables_.slots.slot(slot).aggregation, labels, tables_.items.spans[slot], names);
}

Usage AnswerReader::read_usage(u32 slot, u32 output_tokens) {
  const Item& item = tables_.items[slot];
  const u32 limit = item.truncated ? tables_.routes.tokens_max(item.route, item.role) : 0;
  return {tables_.slots.slot(slot).n_tokens.load(kRelaxed), output_tokens, item.truncated, limit};
}

Timings AnswerReader::read_timings(u32 slot, bool done) {
  const Item& item = tables_.items[slot];
  const Slot& s = tables_.slots.slot(slot);
  const u64 finished = done ? s.finished_ns : tables_.clock.drain_ns,
            scattered = done ? s.scattered_ns : tables_.clock.drain_ns;
  const u32 upstream_us = done && tables_.memory.segment.sizes().upstreams ? s.upstream_us : 0;
  const u32 launch_us = us(s.gathered_ns, s.launched_ns);
  return {{item.parse_us, item.tokenize_us, us(s.queued_ns.load(kRelaxed), s.claimed_ns),
           us(s.claimed_ns, s.gathered_ns), launch_us - std::min(launch_us, upstream_us), us(s.launched_ns, finished),
           us(finished, scattered), us(scattered, tables_.clock.drain_ns), upstream_us}};
}

}  // namespace fastqps::service
