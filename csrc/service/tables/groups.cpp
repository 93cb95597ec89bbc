#include "service/tables/groups.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace fastqps::service {

// Blocks grow, so that a large call needs few of them and a small one little memory.
u8* KeptAnswers::take(size_t bytes) {
  bytes = (bytes + 7) & ~size_t(7);
  if (size_t(end_ - free_) < bytes) {
    const size_t size = std::max(bytes, next_block_);
    next_block_ = std::min(2 * next_block_, kLargestBlock);
    blocks_.push_back(std::make_unique_for_overwrite<u8[]>(size));
    bytes_ += size;
    free_ = blocks_.back().get();
    end_ = free_ + size;
  }
  return std::exchange(free_, free_ + bytes);
}

// Not before the first answer: calls that have none yet take no memory.
void KeptAnswers::make_views() {
  if (views_.size() == items_) return;
  bytes_ += missing_bytes();
  views_.resize(items_);
}

template <class T>
std::span<const T> KeptAnswers::copy(std::span<const T> values) {
  if (values.empty()) return {};
  u8* at = take(values.size_bytes());
  std::memcpy(at, values.data(), values.size_bytes());
  return {reinterpret_cast<const T*>(at), values.size()};
}

std::string_view KeptAnswers::copy(std::string_view text) {
  const std::span<const char> bytes = copy(std::span<const char>(text.data(), text.size()));
  return {bytes.data(), bytes.size()};
}

// With the text that each of them refers to.
template <class T>
std::span<const T> KeptAnswers::copy_named(std::span<const T> values, std::string_view T::*text) {
  T* copies = const_cast<T*>(copy(values).data());
  for (size_t i = 0; i < values.size(); i++) copies[i].*text = copy(values[i].*text);
  return {copies, values.size()};
}

template <class T>
const T* KeptAnswers::copy(const T* value) {
  return value ? copy(std::span<const T>(value, 1)).data() : nullptr;
}

// Label names belong to the model's setup, which a reload may free before the call is answered.
void KeptAnswers::keep(u32 index, const ResponseView& answer) {
  make_views();
  ResponseView& kept = views_[index];
  kept = answer;
  kept.embedding.values = copy(answer.embedding.values);
  kept.embedding.raw = copy(answer.embedding.raw);
  kept.generation.text = copy(answer.generation.text);
  kept.generation.token_ids = copy(answer.generation.token_ids);
  kept.generation.logprobs = copy(answer.generation.logprobs);
  kept.generation.choice_scores = copy_named(answer.generation.choice_scores, &ChoiceScore::text);
  kept.generation.top.ids = copy(answer.generation.top.ids);
  kept.generation.top.logprobs = copy(answer.generation.top.logprobs);
  kept.generation.text_offsets = copy(answer.generation.text_offsets);
  PromptView& prompt = kept.generation.prompt;
  prompt.token_ids = copy(prompt.token_ids);
  prompt.logprobs = copy(prompt.logprobs);
  prompt.top = {copy(prompt.top.ids), copy(prompt.top.logprobs)};
  prompt.text = copy(prompt.text);
  prompt.text_offsets = copy(prompt.text_offsets);
  kept.sparse.ids = copy(answer.sparse.ids);
  kept.sparse.weights = copy(answer.sparse.weights);
  kept.timings = copy(answer.timings);
  kept.usage = copy(answer.usage);
  kept.labels = copy_named(answer.labels, &LabelView::name);
  kept.entities = copy_named(answer.entities, &EntityView::label);
  if (answer.status) kept.status = copy_named(std::span(answer.status, 1), &StatusView::message).data();
}

u32 Groups::open(transport::CallId call, const GroupStart& start, const transport::CallInfo& info) {
  u32 g;
  if (free_.empty()) {
    g = size();
    groups_.emplace_back();
  } else {
    g = free_.back();
    free_.pop_back();
  }
  Group& group = groups_[g];
  group.call = call;
  group.connection = info.connection;
  group.kind = start.kind;
  group.method = start.method;
  group.writer = start.writer;
  group.items = group.unanswered = start.items;
  group.context = start.context;
  group.in_pieces = start.in_pieces;
  group.candidates = start.candidates;
  group.received_ns = group.active_ns = info.receive_ns;
  group.open = true;
  return g;
}

void Groups::free_if_done(u32 g) {
  if (!groups_[g].done()) return;
  if (groups_[g].holds_connection) attachment_->released(groups_[g].connection);
  free(g);
}

void Groups::free(u32 g) {
  if (groups_[g].held) std::erase(held_, g);
  if (groups_[g].ordered.blocked) std::erase(blocked_, g);
  if (groups_[g].failing) std::erase(failing_, g);
  kept_bytes_ -= groups_[g].kept_bytes();
  std::destroy_at(&groups_[g]);  // frees a large batch's memory; assigning a new one takes longer
  std::construct_at(&groups_[g]);
  free_.push_back(g);
}

void Groups::keep(u32 g, u32 index, const ResponseView& answer) {
  KeptAnswers& kept = groups_[g].kept;
  kept_bytes_ -= kept.bytes();
  kept.keep(index, answer);
  kept_bytes_ += kept.bytes();
}

void Groups::keep(u32 g, u32 place, std::string message) {
  kept_bytes_ += message.size();
  groups_[g].ordered.keep(place, std::move(message));
}

std::string Groups::take(u32 g) {
  std::string message = groups_[g].ordered.take();
  kept_bytes_ -= message.size();
  return message;
}

void Groups::link(u32 g, u32 slot, u32 route) {
  if (groups_[g].stream != kNone) groups_[g].slots++;
  Group& group = groups_[owner(g)];
  groups_[g].route = group.route = route;
  links_[slot] = {group.first, kNone};
  if (group.first != kNone) links_[group.first].previous = slot;
  group.first = slot;
  group.slots++;
}

void Groups::unlink(u32 g, u32 slot) {
  const u32 call = owner(g);
  if (call != g) groups_[g].slots--;
  Group& group = groups_[call];
  const Link link = links_[slot];
  (link.previous == kNone ? group.first : links_[link.previous].next) = link.next;
  if (link.next != kNone) links_[link.next].previous = link.previous;
  group.slots--;
  free_if_done(g);
  if (call != g) free_if_done(call);
}

bool Groups::hold(u32 g) {
  if (groups_[g].held) return false;
  groups_[g].held = true;
  held_.push_back(g);
  return true;
}

}  // namespace fastqps::service
