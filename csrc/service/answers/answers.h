// Sends each item's one answer, good or bad: to its call, or to the group of items that it belongs to.
#pragma once
#include "contract/request_view.h"
#include "contract/response_view.h"
#include "service/answers/call_counts.h"
#include "service/answers/group_calls.h"
#include "service/tables/items.h"
#include "service/tables/refusal.h"

namespace fastqps::service {

class Answers {
 public:
  Answers(const DoorMemory& memory, const Attachment& attachment, ModelRoutes& routes, GroupCalls& groups,
          CallCounts& counts)
      : memory_(memory), attachment_(attachment), routes_(routes), groups_(groups), counts_(counts) {}

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
  void end_call(const Item& item, size_t size, Write write);

  const DoorMemory& memory_;
  const Attachment& attachment_;
  ModelRoutes& routes_;
  GroupCalls& groups_;
  CallCounts& counts_;
};

}  // namespace fastqps::service
