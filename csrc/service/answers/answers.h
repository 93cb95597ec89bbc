// Sends the answers of items, and records where their time went.
#pragma once
#include "contract/request_view.h"
#include "contract/response_view.h"
#include "service/answers/group_calls.h"
#include "service/tables/tables.h"

namespace fastqps::service {

// Records where items spent their time: in the statistics, and in the traces of the calls that are traced.
class ItemRecords {
 public:
  // Which of a slot's timestamps are set and belong to this item.
  enum class Ended : u8 { kByDispatcher, kByDoor, kUnanswered };

  explicit ItemRecords(Tables& tables) : tables_(tables) {}

  // Whether an item's times are recorded. For a call of many items, only those of the first few are; of an edge's call,
  // those that the edge traces.
  bool is_traced(const RequestView& view, const Origin& from, u32 slot, u32 route);
  // Records that a slot's answer is sent now.
  void answered(u32 slot, Ended ended);
  // Records that an item of a traced call has ended. `item` may be a copy, because its slot may be free already.
  void trace(const Item& item, u32 slot, Ended ended, StatusCode code);

 private:
  bool is_traced(const RequestView& view, StepSpan& span);
  TraceRecord record_of_step(const Item& item, u32 slot);

  Tables& tables_;
};

// Sends each item's one answer, good or bad: to its call, or to the group of items that it belongs to.
class Answers {
 public:
  Answers(Tables& tables, GroupCalls& groups) : tables_(tables), groups_(groups) {}

  // `item` may be a copy: its slot may be free already.
  void answer(const Item& item, const ResponseView& response);
  void answer(const Item& item, const ChunkView& last);
  // Sends a part of a generation. Returns false if the call has ended.
  bool send_chunk(const Item& item, const ChunkView& chunk);
  // Whether the item's client has read enough to be sent a further part.
  bool takes_more(const Item& item) const;
  void answer(const Item& item, const Refusal& refusal);
  // Answers an item that never got a slot. `view` holds the fields that could be read.
  void refuse(const Origin& from, const RequestView& view, const Refusal& refusal);

 private:
  template <class Write>
  bool send(const Item& item, size_t size, Write write);
  template <class Write>
  void end_call(const Item& item, size_t size, Write write);

  Tables& tables_;
  GroupCalls& groups_;
};

}  // namespace fastqps::service
