// Accepts requests: from a message's bytes to a slot in a ring.
#pragma once
#include <string_view>

#include "service/answers/generation_calls.h"
#include "service/answers/slot_events.h"
#include "service/intake/admission.h"
#include "service/intake/request_checker.h"
#include "service/intake/request_queue.h"
#include "service/intake/slot_input.h"

namespace fastqps::service {

inline std::string_view as_text(std::span<const u8> message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

class Intake {
 public:
  Intake(const DoorMemory& memory, const Attachment& attachment, Slots& slots, Items& items, Tenants& tenants,
         WaitingRoom& room, GroupCalls& groups, ItemRecords& records, GenerationCalls& generating,
         RequestChecker& checker, Admission& admission, SlotInput& input, RequestQueue& queue)
      : memory_(memory),
        attachment_(attachment),
        slots_(slots),
        items_(items),
        tenants_(tenants),
        room_(room),
        groups_(groups),
        records_(records),
        generating_(generating),
        checker_(checker),
        admission_(admission),
        input_(input),
        queue_(queue) {}

  // Reads one item with read(view), which returns a FieldError, then checks and queues it. After a refusal no slot is
  // held, and `view` holds the fields that could be read, at least the request_id if there is one.
  template <class Read>
  Refusal accept(Read read, const Origin& from, RequestView& view) {
    slots_.expect_take();
    const ParseBegin begin = begin_parse(from);
    if (const FieldError error = read(view)) return checker_.refuse(error);
    return check_and_queue(view, from, begin);
  }
  // The same for the bytes of a PredictRequest.
  Refusal accept(std::string_view message, const Origin& from, RequestView& view) {
    return accept([message](RequestView& read) { return parse_request(message, &read); }, from, view);
  }
  // Queues the item of a text that another thread has tokenized or dropped. The caller sends a refusal, to its copy of
  // the item.
  Refusal finish_text(TokenizeResult& result);

 private:
  struct ParseBegin {
    bool timed;  // this item's stages are measured
    u64 ns;      // 0: not read
  };
  ParseBegin begin_parse(const Origin& from);
  Refusal check_and_queue(const RequestView& view, const Origin& from, ParseBegin begin);
  Item& begin_item(const RequestView& view, const Origin& from, u32 route, u32 slot, const ItemTime& time);
  void stamp(const Origin& from, Item& item, u32 slot, u64 begun_ns, u64 parsed_ns, bool timed);
  Refusal refused(TenantId tenant, const Refusal& refusal);
  Refusal enqueue(u32 slot);
  void link(u32 slot, std::string_view group, TenantId tenant);
  void name_caller(u32 slot, std::string_view group, TenantId tenant);

  const DoorMemory& memory_;
  const Attachment& attachment_;
  Slots& slots_;
  Items& items_;
  Tenants& tenants_;
  WaitingRoom& room_;
  GroupCalls& groups_;
  ItemRecords& records_;
  GenerationCalls& generating_;
  RequestChecker& checker_;
  Admission& admission_;
  SlotInput& input_;
  RequestQueue& queue_;
  u32 sample_ = 0;
};

}  // namespace fastqps::service
