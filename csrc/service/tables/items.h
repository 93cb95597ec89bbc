// The table of items. An *item* is one PredictRequest that holds a slot, and its row has the slot's number. What it
// holds in other tables it takes and gives back here.
#pragma once
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "contract/response_view.h"
#include "contract/types.h"
#include "core/attachments.h"
#include "core/layout.h"
#include "core/segment.h"
#include "service/tables/door.h"
#include "service/tables/generation.h"
#include "service/tables/groups.h"
#include "service/tables/refusal.h"
#include "service/tables/routes.h"
#include "service/tables/tenants.h"
#include "service/tables/waiting_room.h"
#include "text/tokenizer.h"
#include "transport/rpc/service.h"

namespace fastqps::service {

// The deadlines of a door's slots. Almost none of them passes, so they must cost next to nothing: one store to set, one
// to clear, and a scan only when the earliest deadline of the last scan has come.
class Deadlines {
 public:
  static constexpr u64 kNone = ~u64(0);

  explicit Deadlines(u32 slots) : at_ns_(slots, kNone) {}

  // 0: none.
  void set(u32 slot, u64 at_ns) {
    if (!at_ns) return;
    at_ns_[slot] = at_ns;
    soonest_ns_ = std::min(soonest_ns_, at_ns);
    used_ = std::max(used_, slot + 1);
  }
  void clear(u32 slot) { at_ns_[slot] = kNone; }
  u64 soonest_ns() const { return soonest_ns_; }  // or earlier, because its request may have been answered

  // Calls expire(slot) for each deadline that has passed. It returns a later deadline for the slot, or kNone; it may
  // clear other deadlines, but not set any.
  template <class Expire>
  void advance(u64 now_ns, Expire expire) {
    if (now_ns < soonest_ns_) return;
    soonest_ns_ = kNone;
    u32 used = 0;
    for (u32 i = 0; i < used_; i++) {
      if (at_ns_[i] == kNone) continue;
      if (at_ns_[i] <= now_ns) {
        at_ns_[i] = kNone;
        at_ns_[i] = expire(i);
      }
      if (at_ns_[i] == kNone) continue;
      soonest_ns_ = std::min(soonest_ns_, at_ns_[i]);
      used = i + 1;
    }
    used_ = used;
  }

 private:
  std::vector<u64> at_ns_;
  u64 soonest_ns_ = kNone;
  u32 used_ = 0;  // the slot freed last is taken first, so the used ones lie together
};

// The places in their texts of the tokens that a token classifier works on, until its answer becomes entities.
class TokenSpans {
 public:
  explicit TokenSpans(u32 slots) : slots_(slots) {}

  // To be filled.
  std::vector<text::TokenSpan>& of(u32 slot) {
    if (spans_.empty()) spans_.resize(slots_);
    return spans_[slot];
  }
  std::span<const text::TokenSpan> operator[](u32 slot) const {
    return spans_.empty() ? std::span<const text::TokenSpan>() : spans_[slot];
  }
  // Keeps the memory of usual texts.
  void drop(u32 slot) {
    if (spans_.empty()) return;
    spans_[slot].clear();
    if (spans_[slot].capacity() > kKept) std::vector<text::TokenSpan>().swap(spans_[slot]);
  }

 private:
  static constexpr size_t kKept = 128;

  const u32 slots_;
  std::vector<std::vector<text::TokenSpan>> spans_;  // by slot; empty until a token classifier has a request
};

// The front door's large answers: room for answers that are longer than a slot's own. A slot holds one from the moment
// when it is queued until it is free again, so that everything that protects a slot protects its large answer, too.
class LargeAnswers {
 public:
  // A predecessor that has crashed left slots that are not free. Those keep what they hold until they are.
  explicit LargeAnswers(const DoorMemory& memory) : memory_(memory), held_(memory.segment.sizes().slots) {
    const Sizes& sizes = memory.segment.sizes();
    const u64 before = memory.door * sizes.large_answers;  // those of other doors
    std::vector<bool> taken(sizes.large_answers);
    for (u32 i = 0; i < sizes.slots; i++) {
      const Slot& slot = memory.segment.slot(memory.door, i);
      if (Word{slot.state.load(kAcquire)}.state() == State::kFree || slot.large_answer <= before) continue;
      const u64 number = slot.large_answer - before - 1;
      if (number >= taken.size() || taken[number]) continue;  // the word is damaged: it holds none
      taken[number] = true;
      held_[i].number = slot.large_answer;
    }
    for (u64 i = taken.size(); i-- > 0;)  // the first ones are taken first, and their pages stay in the caches
      if (!taken[i]) free_.push_back(u32(before + i + 1));
  }

  // Gives a slot that is about to be put room for an answer of this many bytes. Returns false if there is none left.
  bool hold(u32 i, u64 bytes, u32 owner) {
    Slot& slot = memory_.segment.slot(memory_.door, i);
    slot.large_answer = 0;
    if (fits(bytes)) return true;
    if (free_.empty() || bytes > memory_.segment.sizes().large_answer_bytes) return false;
    slot.large_answer = held_[i].number = free_.back();
    free_.pop_back();
    if (owner >= held_by_.size()) held_by_.resize(owner + 1);
    held_by_[held_[i].owner = owner]++;
    return true;
  }
  // Whether a slot's own room is enough.
  bool fits(u64 bytes) const { return bytes <= memory_.segment.sizes().answer_bytes; }
  // The slot is free. What it held is known here: its own word may be an old one.
  void release(u32 i) {
    const auto [number, owner] = std::exchange(held_[i], {});
    if (!number) return;
    free_.push_back(number);
    if (owner != kNobody) held_by_[owner]--;
  }
  u32 of(u32 owner) const { return owner < held_by_.size() ? held_by_[owner] : 0; }
  u32 free() const { return u32(free_.size()); }

 private:
  static constexpr u32 kNobody = ~u32(0);  // of a slot that an earlier incarnation has taken
  struct Held {
    u32 number = 0, owner = kNobody;  // 0: none
  };

  const DoorMemory& memory_;
  std::vector<Held> held_;    // by slot
  std::vector<u32> held_by_;  // by owner
  std::vector<u32> free_;     // as Slot::large_answer names them
};

// One cache line, since each request writes and reads all of it.
struct alignas(64) Item {
  transport::CallId call;
  transport::ConnectionId connection;
  u64 request_id = 0, received_ns = 0;
  u32 group = Groups::kNone, index = 0;  // of a batch or stream call, and the place in its batch
  u32 parse_us = 0, tokenize_us = 0;
  u16 route = 0;
  Rpc method = kPredict;
  u8 priority : 4 = 0;
  u8 role : 4 = 0;       // the place in RouteSetup::roles
  bool stamped = false;  // its times are in the table
  bool sampled = false, traced = false;
  bool tokenizing = false;  // not put yet, because a worker has its text
  bool truncate : 1 = false, truncated : 1 = false;
  bool pair : 1 = false;
  bool grouped : 1 = false;  // is one of siblings
  bool chat : 1 = false;     // no prefix is in its ids yet, and nothing is put around them
  bool bare : 1 = false;     // no special tokens are put around its text
  TimeBound bound : 2 = TimeBound::kOwn;
  bool answered = false;
  bool held = false;              // counts in its route
  bool waits = false;             // for its tokens or for a dispatcher; counts in its tenant's share
  bool holds_connection = false;  // its call is gone, but it still counts against the connection
};
static_assert(sizeof(Item) == 64);

// By fastqps.v1.Priority.
constexpr Class class_of(u8 priority) {
  constexpr Class kClassOf[] = {kNormal, kLow, kNormal, kHigh};
  return kClassOf[priority & 3];
}

struct ItemTimes {
  u64 parse_begun_ns, parse_ended_ns;
};

// Where an item's message came from.
struct Origin {
  transport::CallId call;
  const transport::CallInfo* info;
  Rpc method;
  u32 group = Groups::kNone, index = 0;
  u32 batch_slots = 0;           // slots that its batch holds already
  bool streams = false;          // a generation is answered piece by piece
  Output wants = Output::kNone;  // the only kind of answer that the protocol can carry
};

// Of an item that an edge sent and traces: its trace, the edge's span, and the one by which servers behind this one
// know it: this server's own, or the edge's if none is recorded here. span_id all 0: it is not traced.
struct StepSpan {
  u8 trace_id[16] = {}, parent_id[8] = {}, span_id[8] = {};
  std::string state = {};  // its tracestate
};

class Items {
 public:
  Items(const DoorMemory& memory, const Attachment& attachment, ModelRoutes& routes, Tenants& tenants,
        WaitingRoom& room, Groups& groups);

  Item& operator[](u32 slot) { return items_[slot]; }
  ItemTimes& times(u32 slot) { return times_[slot]; }
  // Of an item that an edge sent.
  StepSpan& span(u32 slot) { return spans_of_edges_[slot]; }
  u32 size() const { return u32(items_.size()); }

  TenantId tenant(u32 slot) const { return tenant_of_[slot]; }

  // An item and its slot's options; the input follows. Whatever comes then, release() ends it.
  Item& begin(u32 slot, const RequestView& view, const Origin& from, u32 route, const ItemTime& time);
  // The item is accepted: it counts against its tenant and its route, its call knows it, and it waits until end_wait().
  // siblings: the name of their group; empty: it has none.
  void hold(u32 slot, TenantId tenant, std::string_view siblings, u64 due_ns);
  void end_wait(u32 slot) {
    Item& item = items_[slot];
    if (std::exchange(item.waits, false)) counts.taken(tenant_of_[slot], item.route, class_of(item.priority));
  }
  void wait_again(u32 slot) {
    Item& item = items_[slot];
    if (!std::exchange(item.waits, true)) counts.wait(tenant_of_[slot], item.route, class_of(item.priority));
  }
  // Marks the item as answered. The caller must answer it, once.
  void answer(u32 slot) {
    items_[slot].answered = true;
    deadlines.clear(slot);
  }
  // The slot is free, or was never put: gives back everything that the item holds.
  void release(u32 slot);

  Deadlines deadlines;
  Generations generations;
  TokenSpans spans;
  LargeAnswers large_answers;
  Attachments attachments;
  TenantCounts counts;
  TenantShares shares;

 private:
  const DoorMemory& memory_;
  const Attachment& attachment_;
  ModelRoutes& routes_;
  Tenants& tenants_;
  WaitingRoom& room_;
  Groups& groups_;
  std::vector<Item> items_;
  std::vector<ItemTimes> times_;
  std::vector<StepSpan> spans_of_edges_;
  std::vector<TenantId> tenant_of_;
};

}  // namespace fastqps::service
