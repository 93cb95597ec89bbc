#include "predict/intake/waiting_room.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace fastqps::front {

// ---- turns of tenants

void WaitingRoom::give_turn(Line& line, u32 tenant, double start, u64 number) {
  line.queues[tenant].has_turn = true;
  const u32 weight = tenants_.weight(TenantId(tenant));
  line.weights += weight;
  line.turns.push_back({start, number, tenant, weight});
  std::push_heap(line.turns.begin(), line.turns.end());
}

// A tenant that had nothing in line has saved nothing up. If it has had less than all that are in line it is next, and
// not behind the rest of their round; but only one between two items of others: new tenants may come without end.
// Otherwise it starts with what a tenant that had always been in line would have had.
void WaitingRoom::join_line(Line& line, u32 tenant) {
  const double served = line.queues[tenant].served, least = least_served(line);
  if (served < least && !std::exchange(line.passed, true))
    give_turn(line, tenant, least, 0);
  else
    give_turn(line, tenant, std::max(served, line.now), ++turns_);
  if (!serves_group(line)) end_turn(line);
}

double WaitingRoom::least_served(const Line& line) {
  if (!line.turn.weight) return line.turns.empty() ? line.now : line.turns.front().start;
  const double served = line.queues[line.turn.tenant].served;
  return line.turns.empty() ? served : std::min(served, line.turns.front().start);
}

void WaitingRoom::end_turn(Line& line) {
  if (!line.turn.weight) return;
  Queue& queue = line.queues[line.turn.tenant];
  line.weights -= std::exchange(line.turn.weight, 0);
  queue.has_turn = false;
  if (queue.items) give_turn(line, line.turn.tenant, queue.served, ++turns_);
}

// The row belongs to another tenant now, which has nothing to do with what the former one has had. A turn that is left
// of that one goes, too: it may start far behind the others. And if it is the current one, it would go on until the new
// tenant has had as much as the others have had since the line began.
void WaitingRoom::change_owner(Line& line, u32 tenant, u32 owner) {
  Queue& queue = line.queues[tenant];  // without items
  if (line.turn.weight && line.turn.tenant == tenant) end_turn(line);
  if (std::exchange(queue.has_turn, false)) {
    const auto left =
        std::find_if(line.turns.begin(), line.turns.end(), [&](const Turn& turn) { return turn.tenant == tenant; });
    line.weights -= left->weight;
    line.turns.erase(left);
    std::make_heap(line.turns.begin(), line.turns.end());
  }
  queue.owner = owner, queue.served = 0;
}

// Whether the next item of the tenant whose turn it is is a sibling of the one that was taken last.
bool WaitingRoom::serves_group(const Line& line) const {
  if (!line.turn.weight || line.group == kNone) return false;
  const u32 first = line.queues[line.turn.tenant].first;
  return first != kNone && places_[first].group == line.group;
}

// The tenant that is served next: the one whose group is being served; the one whose turn it is, while it has had
// little more than the next one; or the one that has had the least of its part.
u32 WaitingRoom::next_tenant(Line& line) {
  if (line.turn.weight) {
    const Queue& queue = line.queues[line.turn.tenant];
    const bool little = line.turns.empty() || queue.served <= line.turns.front().start + kGrain;
    if (serves_group(line) || (queue.items && little)) return line.turn.tenant;
    end_turn(line);
  }
  for (;;) {
    std::pop_heap(line.turns.begin(), line.turns.end());
    line.turn = line.turns.back();
    line.turns.pop_back();
    Queue& queue = line.queues[line.turn.tenant];
    if (!queue.items ||
        line.turn.start < queue.served) {  // it is an old turn: from before its items have left, or a group
      end_turn(line);
      continue;
    }
    queue.served = std::max(queue.served, line.turn.start);
    return line.turn.tenant;
  }
}

// ---- items

void WaitingRoom::add(u32 slot, const Arrival& arrival) {
  Line& line = lines_[line_of(arrival.route, arrival.kind)];
  if (line.queues.empty()) line.queues.resize(Tenants::kAll);
  Place& place = places_[slot];
  place.cost = arrival.cost, place.since_ns = arrival.since_ns;
  place.tenant = arrival.tenant, place.line = u16(&line - lines_.data());
  Queue& queue = line.queues[arrival.tenant];
  if (const u32 owner = tenants_.owner(arrival.tenant); queue.owner != owner) change_owner(line, arrival.tenant, owner);
  const u32 at = stand(queue, slot);
  place.before = at;
  place.next = at == kNone ? queue.first : places_[at].next;
  (at == kNone ? queue.first : places_[at].next) = slot;
  (place.next == kNone ? queue.last : places_[place.next].before) = slot;
  queue.items++, line.items++, items_++;
  if (queue.items > line.queues[line.largest].items) line.largest = arrival.tenant;
  publish(line);
  if (!queue.has_turn) join_line(line, arrival.tenant);
}

// Gives an item its place among its siblings: the item behind which it stands; kNone: it comes first. Siblings stand
// behind the last one that waits. If none waits but some have been served, they would be in front of everybody who has
// come since.
u32 WaitingRoom::stand(Queue& queue, u32 slot) {
  if (places_[slot].group == kNone) return queue.last;
  Group& group = groups_[places_[slot].group];
  if (group.stood++ >= kSiblings) return leave(slot), queue.last;
  const u32 at = group.waiting ? group.last : group.served ? queue.returned : queue.last;
  if (group.served && at == queue.returned) queue.returned = slot;
  group.waiting++;
  group.last = slot;
  return at;
}

void WaitingRoom::unlink(u32 slot) {
  Place& place = places_[slot];
  Line& line = lines_[place.line];
  Queue& queue = line.queues[place.tenant];
  if (place.group != kNone) {
    Group& group = groups_[place.group];
    if (group.last == slot) group.last = place.before;  // of its siblings, if any is left
    group.waiting--;
  }
  if (queue.returned == slot) queue.returned = place.before;
  (place.before == kNone ? queue.first : places_[place.before].next) = place.next;
  (place.next == kNone ? queue.last : places_[place.next].before) = place.before;
  place.line = kNoLine;
  queue.items--, line.items--, items_--;
  publish(line);
}

// relaxed: other doors' estimates; and dispatchers read it behind the announcement of a sleep.
void WaitingRoom::publish(const Line& line) const {
  const u64 number = u64(&line - lines_.data());
  DoorRoute& route = memory_.segment.door_route(memory_.door, u32(number / kPriorities));
  route.held_back[number % kPriorities].store(line.items, kRelaxed);
}

WaitingRoom::Next WaitingRoom::take(u32 route, u32 kind) {
  Line& line = lines_[line_of(route, kind)];
  const u32 tenant = next_tenant(line);
  Queue& queue = line.queues[tenant];
  const u32 slot = queue.first;
  const Place& place = places_[slot];
  line.passed &= !line.turn.number;
  queue.served += double(place.cost) / tenants_.weight(TenantId(tenant));
  line.now = std::max(line.now + double(place.cost) / double(line.weights), least_served(line));
  line.group = place.group;
  if (place.group != kNone) groups_[place.group].served = true;
  unlink(slot);
  return {slot, place.since_ns};
}

void WaitingRoom::remove(u32 slot) { unlink(slot); }

// The longest one of a line that has any, about.
const WaitingRoom::Queue& WaitingRoom::longest(const Line& line) {
  constexpr size_t kLooks = 16;
  const Queue* most = &line.queues[line.largest];
  for (size_t i = 0; i < line.turns.size() && (i < kLooks || !most->items); i++) {
    const Queue& queue = line.queues[line.turns[i].tenant];
    if (queue.items > most->items) most = &queue;
  }
  return *most;
}

u32 WaitingRoom::youngest(u32 route, u32 kind) const { return longest(lines_[line_of(route, kind)]).last; }

u32 WaitingRoom::most(u32 route, u32 kind) const {
  const Line& line = lines_[line_of(route, kind)];
  return line.items ? longest(line).items : 0;
}

// ---- siblings

void WaitingRoom::join(u32 slot, std::string_view name, TenantId tenant, u32 route, u32 kind) {
  // The same name is another group beside another tenant or in another line.
  const u64 where = u64(tenant) << 32 | line_of(route, kind);
  const u64 key = std::hash<std::string_view>{}(name) ^ where * 0x9e3779b97f4a7c15;
  const auto [found, is_new] = by_key_.try_emplace(key, u32(groups_.size()));
  if (is_new && free_groups_.empty()) groups_.emplace_back();
  if (is_new && !free_groups_.empty()) {
    found->second = free_groups_.back();
    free_groups_.pop_back();
  }
  Group& group = groups_[found->second];
  if (is_new) group = {.key = key, .where = where};
  if (group.where != where) return;  // two names with one key: this one has no group
  group.members++;
  places_[slot].group = found->second;
}

void WaitingRoom::leave(u32 slot) {
  const u32 number = std::exchange(places_[slot].group, kNone);
  if (number == kNone || --groups_[number].members) return;
  by_key_.erase(groups_[number].key);
  Line& line = lines_[u32(groups_[number].where)];
  if (line.group == number) line.group = kNone;
  free_groups_.push_back(number);
}

}  // namespace fastqps::front
