#include "service/tables/waiting_room.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace fastqps::service {

// ---- turns of tenants

void WaitingRoom::give_turn(Line& line, u32 tenant) {
  Queue& queue = line.queues[tenant];
  queue.has_turn = true;
  const u32 weight = tenants_.weight(TenantId(tenant));
  line.weights += weight;
  line.turns.push_back({queue.served, ++turns_, tenant, weight});
  std::push_heap(line.turns.begin(), line.turns.end());
}

// A tenant that had nothing in line has saved nothing up: it goes on with the least that one in line has had. If it has
// had no more than that it is a newcomer, who does not wait for the rest of a round.
void WaitingRoom::join_line(Line& line, u32 tenant) {
  if (line.turn.weight && !line.queues[line.turn.tenant].items) leave_turn(line);
  Queue& queue = line.queues[tenant];
  const double least = least_served(line);
  if (queue.served > least) return give_turn(line, tenant);
  queue.has_turn = true;
  const u32 weight = tenants_.weight(TenantId(tenant));
  line.weights += weight;
  line.newcomers.push_back({least, 0, tenant, weight});
}

// Of those in line, but for newcomers.
double WaitingRoom::least_served(const Line& line) {
  const double first = line.turns.empty() ? line.service : line.turns.front().start;
  if (!line.turn.weight) return first;
  const double served = line.queues[line.turn.tenant].served;
  return line.turns.empty() ? served : std::min(served, first);
}

void WaitingRoom::leave_turn(Line& line) {
  Queue& queue = line.queues[line.turn.tenant];
  if (line.turn.number) line.passed = 0;
  line.weights -= std::exchange(line.turn.weight, 0);
  queue.has_turn = false;
  if (queue.items) give_turn(line, line.turn.tenant);
}

// The row belongs to another tenant now, which has nothing to do with what the former one has had. A turn that is left
// of that one goes, too: it may start far behind the others. And if it is the current one, it would go on until the new
// tenant has had as much as the others have had since the line began.
void WaitingRoom::change_owner(Line& line, u32 tenant, u32 owner) {
  Queue& queue = line.queues[tenant];  // without items
  if (line.turn.weight && line.turn.tenant == tenant) leave_turn(line);
  if (std::exchange(queue.has_turn, false)) {
    const auto is_its = [&](const Turn& turn) { return turn.tenant == tenant; };
    if (const auto left = std::find_if(line.turns.begin(), line.turns.end(), is_its); left != line.turns.end()) {
      line.weights -= left->weight;
      line.turns.erase(left);
      std::make_heap(line.turns.begin(), line.turns.end());
    } else {
      const auto came = std::find_if(line.newcomers.begin(), line.newcomers.end(), is_its);
      line.weights -= came->weight;
      line.newcomers.erase(came);
    }
  }
  queue.owner = owner, queue.served = 0;
}

// Whether the next item of the tenant whose turn it is is a sibling of the one that was taken last.
bool WaitingRoom::serves_siblings(const Line& line) const {
  if (!line.turn.weight || line.siblings == kNone) return false;
  const u32 first = line.queues[line.turn.tenant].first;
  return first != kNone && places_[first].siblings == line.siblings;
}

// The tenant that is served next: the one whose group is being served; the one whose turn it is, while it has had
// little more than the next one; a newcomer; or the one that has had the least of its part. Newcomers may come without
// end, as connections with one call each do, so now and then somebody else has a whole turn between them.
u32 WaitingRoom::next_tenant(Line& line) {
  if (line.turn.weight) {
    const Queue& queue = line.queues[line.turn.tenant];
    const bool others = !line.turns.empty() || !line.newcomers.empty();
    const double next = line.turn.number && !line.turns.empty() ? line.turns.front().start : line.turn.start;
    const bool yields = line.turn.number && line.passed < kPassing && !line.newcomers.empty();
    const bool goes_on = !others || (!yields && queue.served <= next + kGrain);
    if (serves_siblings(line) || (queue.items && goes_on)) return line.turn.tenant;
    leave_turn(line);
  }
  for (;; leave_turn(line)) {  // a turn from before its tenant's items have left
    const bool newcomer = !line.newcomers.empty() && (line.passed < kPassing || line.turns.empty());
    if (newcomer) {
      line.turn = line.newcomers.front();
      line.newcomers.pop_front();
      line.passed++;
    } else {
      std::pop_heap(line.turns.begin(), line.turns.end());
      line.turn = line.turns.back();
      line.turns.pop_back();
    }
    Queue& queue = line.queues[line.turn.tenant];
    if (!queue.items || (!newcomer && line.turn.start < queue.served)) continue;
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
  if (places_[slot].siblings == kNone) return queue.last;
  Siblings& siblings = siblings_[places_[slot].siblings];
  if (siblings.stood++ >= kSiblings) return leave(slot), queue.last;
  const u32 at = siblings.waiting ? siblings.last : siblings.served ? queue.returned : queue.last;
  if (siblings.served && at == queue.returned) queue.returned = slot;
  siblings.waiting++;
  siblings.last = slot;
  return at;
}

void WaitingRoom::unlink(u32 slot) {
  Place& place = places_[slot];
  Line& line = lines_[place.line];
  Queue& queue = line.queues[place.tenant];
  if (place.siblings != kNone) {
    Siblings& siblings = siblings_[place.siblings];
    if (siblings.last == slot) siblings.last = place.before;  // of its siblings, if any is left
    siblings.waiting--;
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
  line.service = std::max(line.service, queue.served);
  queue.served += double(place.cost) / tenants_.weight(TenantId(tenant));
  line.siblings = place.siblings;
  if (place.siblings != kNone) siblings_[place.siblings].served = true;
  unlink(slot);
  return {slot, place.since_ns};
}

void WaitingRoom::remove(u32 slot) { unlink(slot); }

// Of a line that has items: the tenant with the most for its weight, about.
u32 WaitingRoom::longest(const Line& line) const {
  constexpr size_t kLooks = 16;
  u32 most = line.largest;
  const auto look = [&](const Turn& turn) {
    if (part(line, turn.tenant) > part(line, most)) most = turn.tenant;
  };
  const auto look_at = [&](const auto& turns) {
    for (size_t i = 0; i < turns.size() && (i < kLooks || !line.queues[most].items); i++) look(turns[i]);
  };
  if (line.turn.weight) look(line.turn);
  look_at(line.turns);
  look_at(line.newcomers);
  return most;
}

double WaitingRoom::part(const Line& line, u32 tenant) const {
  return double(line.queues[tenant].items) / tenants_.weight(TenantId(tenant));
}

u32 WaitingRoom::youngest(u32 route, u32 kind) const {
  const Line& line = lines_[line_of(route, kind)];
  return line.queues[longest(line)].last;
}

double WaitingRoom::most(u32 route, u32 kind) const {
  const Line& line = lines_[line_of(route, kind)];
  return line.items ? part(line, longest(line)) : 0;
}

u64 WaitingRoom::before(u32 route, u32 kind, TenantId tenant) const {
  const Line& line = lines_[line_of(route, kind)];
  const bool passes = line.items && (tenants_.owner(tenant) != line.queues[tenant].owner ||
                                     line.queues[tenant].served <= least_served(line));
  return line.newcomers.size() + (passes ? 1 : line.turns.size() + 1);
}

// ---- siblings

void WaitingRoom::join(u32 slot, std::string_view name, TenantId tenant, u32 route, u32 kind) {
  // The same name is another group beside another tenant or in another line.
  const u64 where = u64(tenant) << 32 | line_of(route, kind);
  const u64 key = std::hash<std::string_view>{}(name) ^ where * 0x9e3779b97f4a7c15;
  const auto [found, is_new] = by_key_.try_emplace(key, u32(siblings_.size()));
  if (is_new && free_siblings_.empty()) siblings_.emplace_back();
  if (is_new && !free_siblings_.empty()) {
    found->second = free_siblings_.back();
    free_siblings_.pop_back();
  }
  Siblings& siblings = siblings_[found->second];
  if (is_new) siblings = {.key = key, .where = where};
  if (siblings.where != where) return;  // two names with one key: this one has no group
  siblings.members++;
  places_[slot].siblings = found->second;
}

void WaitingRoom::leave(u32 slot) {
  const u32 number = std::exchange(places_[slot].siblings, kNone);
  if (number == kNone || --siblings_[number].members) return;
  by_key_.erase(siblings_[number].key);
  Line& line = lines_[u32(siblings_[number].where)];
  if (line.siblings == number) line.siblings = kNone;
  free_siblings_.push_back(number);
}

}  // namespace fastqps::service
