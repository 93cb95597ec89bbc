#include "service/tables/groups.h"

#include <memory>

namespace fastqps::service {

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
  group.received_ns = group.active_ns = info.receive_ns;
  group.open = true;
  return g;
}

void Groups::free(u32 g) {
  if (groups_[g].held) std::erase(held_, g);
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

void Groups::link(u32 g, u32 slot) {
  if (groups_[g].stream != kNone) groups_[g].slots++;
  Group& group = groups_[owner(g)];
  links_[slot] = {group.first, kNone};
  if (group.first != kNone) links_[group.first].previous = slot;
  group.first = slot;
  group.slots++;
}

void Groups::unlink(u32 g, u32 slot) {
  if (groups_[g].stream != kNone) groups_[g].slots--;
  Group& group = groups_[owner(g)];
  const Link link = links_[slot];
  (link.previous == kNone ? group.first : links_[link.previous].next) = link.next;
  if (link.next != kNone) links_[link.next].previous = link.previous;
  group.slots--;
}

bool Groups::hold(u32 g) {
  if (groups_[g].held) return false;
  groups_[g].held = true;
  held_.push_back(g);
  return true;
}

}  // namespace fastqps::service
