// Accepts requests: from a message's bytes to a slot in a ring, or in the waiting room until there is a place.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "service/answers/generation_calls.h"
#include "service/answers/withdrawals.h"
#include "service/intake/admission.h"
#include "service/intake/slot_input.h"

namespace fastqps::service {

// Puts complete slots into the rings of their routes, for dispatchers to claim, or into the waiting room.
class RequestQueue {
 public:
  RequestQueue(Tables& tables, Withdrawals& withdrawals)
      : tables_(tables), withdrawals_(withdrawals), owed_(tables.memory.segment.sizes().routes()) {}

  // After a refusal the slot is free again and the item is gone.
  Refusal put(u32 slot);
  // Gives the rings what they have room for, in the order of service. Called once a turn, after QueueLoads::look().
  void feed();
  // Whether there is something that feed() would give.
  bool can_feed() const;
  // Reads the clock for an item's own times. The wait of items that are put later in this turn counts from here.
  u64 stamp();

 private:
  bool has_room(u32 route, u32 kind) const;
  bool is_one_batch(u32 slot) const;
  u32 large_of_call(u32 slot) const;
  void make_way(u32 route);
  Refusal hold_answer(u32 slot, Reject& why);
  const Refusal& refuse(u32 slot, Reject why, const Refusal& refusal);

  Tables& tables_;
  Withdrawals& withdrawals_;
  std::vector<u32> owed_;  // by route: items that were accepted although the queue was full
  u64 stamp_ns_ = 0;       // the newest reading of the clock
};

class Intake {
 public:
  Intake(Tables& tables, ItemRecords& records, GenerationCalls& generating, RequestQueue& queue)
      : tables_(tables),
        records_(records),
        generating_(generating),
        queue_(queue),
        checker_(tables.routes, tables.refusals, tables.memory.segment.sizes().longest_answer()),
        admission_(tables),
        input_(tables) {}

  // When the parsing of an item began.
  struct Begun {
    bool timed;  // this item's stages are measured
    u64 ns;      // 0: not read
  };
  Begun begin(const Origin& from) {
    tables_.slots.expect_take();
    return begin_parse(from);
  }
  // The path of one item. parse(view) reads it and returns a FieldError. After a refusal no slot is held, and `view`
  // holds the fields that could be read, at least the request_id if there is one.
  template <class Parse>
  Refusal accept(Parse parse, const Origin& from, RequestView& view) {
    const Begun begun = begin(from);
    return accept(begun, parse(view), from, view);
  }
  // The same of an item that was read since begin().
  Refusal accept(const Begun& begin, const FieldError& error, const Origin& from, RequestView& view) {
    if (error) return tables_.refusals.refuse(error);

    u32 route = 0;
    if (Refusal refusal = checker_.check(view, from, route)) return refusal;

    const ItemTime time = admission_.time_of(view, from);
    const TenantId tenant = tables_.tenants.of(view, *from.info);
    if (Refusal refusal = admission_.check(view, route, tenant, from, tables_.attachment->turn_ns(), time))
      return refused(tenant, refusal);
    const i64 taken = tables_.slots.take();
    if (taken < 0) return refused(tenant, admission_.no_slot(route, class_of(u8(view.priority)), from.group));

    const u32 slot = u32(taken);
    Item& item = tables_.items.begin(slot, view, from, route, time);
    item.traced = records_.is_traced(view, from, slot, route);
    item.stamped = begin.timed || view.output.timings || (item.traced && tables_.attachment->records());
    const u64 parsed_ns = item.stamped ? now_ns() : 0;
    // What refuses comes first: a text that another thread tokenizes keeps its slot until that is done.
    Refusal refusal = generates(tables_.memory.route(route).task) ? attach(view, slot, tenant, from) : Refusal{};
    if (!refusal) refusal = input_.fill(view, route, slot, item);
    if (item.stamped) stamp(from, slot, begin, parsed_ns);
    if (refusal) return tables_.slots.discard(slot), refused(tenant, refusal);

    const std::string_view siblings = group_of(view, *from.info);
    tables_.items.hold(slot, tenant, siblings, time.due_ns);
    if (tables_.memory.segment.sizes().caller_bytes) name_caller(slot, siblings, tenant);
    if (generates(tables_.memory.route(route).task))
      generating_.begin(view, route, slot, from.streams, std::move(choices_));
    return item.tokenizing ? Refusal{} : queue_.put(slot);
  }
  // Queues the item of a text that another thread has tokenized or dropped. The caller sends a refusal, to its copy of
  // the item.
  Refusal finish_text(TokenizeResult& result);

 private:
  Begun begin_parse(const Origin& from);
  Refusal attach(const RequestView& view, u32 slot, TenantId tenant, const Origin& from);
  Refusal attach(u32 slot, AttachmentKind kind, std::string_view bytes, TenantId tenant, const Origin& from);
  void stamp(const Origin& from, u32 slot, Begun begin, u64 parsed_ns);
  Refusal refused(TenantId tenant, const Refusal& refusal);
  void name_caller(u32 slot, std::string_view siblings, TenantId tenant);

  Tables& tables_;
  ItemRecords& records_;
  GenerationCalls& generating_;
  RequestQueue& queue_;
  RequestChecker checker_;
  Admission admission_;
  SlotInput input_;
  u32 sample_ = 0;
  std::string part_;                      // that is being attached
  std::unique_ptr<ChoiceTexts> choices_;  // of the request that is being accepted
};

}  // namespace fastqps::service
