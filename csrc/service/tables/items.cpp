#include "service/tables/items.h"

#include <new>

namespace fastqps::service {

Items::Items(const DoorMemory& memory, const Attachment& attachment, ModelRoutes& routes, Tenants& tenants,
             WaitingRoom& room, Groups& groups)
    : deadlines(memory.segment.sizes().slots),
      generations(memory.segment.sizes().slots),
      spans(memory.segment.sizes().slots),
      large_answers(memory),
      attachments(memory.segment, memory.door),
      counts(memory.segment.sizes().routes()),
      shares(memory, tenants),
      memory_(memory),
      attachment_(attachment),
      routes_(routes),
      tenants_(tenants),
      room_(room),
      groups_(groups),
      items_(memory.segment.sizes().slots),
      times_(memory.segment.sizes().slots),
      spans_of_edges_(memory.segment.sizes().slots),
      tenant_of_(memory.segment.sizes().slots) {}

Item& Items::begin(u32 slot, const RequestView& view, const Origin& from, u32 route, const ItemTime& time) {
  Slot& s = memory_.segment.slot(memory_.door, slot);
  s.deadline_ns = time.last_ns;
  s.dimensions = view.output.dimensions ? view.output.dimensions : view.output.max_active_dims;
  s.top_labels = u16(std::min<u32>(view.output.top_labels, 0xffff));
  s.dtype = u8(view.output.dtype);
  s.aggregation = Aggregation(view.output.aggregation ? view.output.aggregation : i32(Aggregation::kSimple));
  s.flags = u8((view.output.normalize ? kNormalizeSet : 0) | (view.output.normalize.value_or(false) ? kNormalize : 0) |
               (view.output.raw_scores ? kRawScores : 0) | (view.output.timings ? kWantTimings : 0));
  // Constructed in place: copying a fresh item would stall on the narrow stores that filled it.
  return *new (&items_[slot]) Item{.call = from.call,
                                   .connection = from.info->connection,
                                   .request_id = view.request_id,
                                   .received_ns = from.info->receive_ns,
                                   .group = from.group,
                                   .index = from.index,
                                   .route = u16(route),
                                   .method = from.method,
                                   .priority = u8(view.priority & 15),
                                   .bare = !view.generate.add_special_tokens,
                                   .bound = time.bound};
}

void Items::hold(u32 slot, TenantId tenant, std::string_view siblings, u64 due_ns) {
  Item& item = items_[slot];
  const Class kind = class_of(item.priority);
  item.held = item.waits = true;
  tenant_of_[slot] = tenant;
  routes_.hold(item.route);
  tenants_.hold(tenant);
  counts.add(tenant, item.route, kind);
  item.grouped = !siblings.empty();
  if (item.grouped) room_.join(slot, siblings, tenant, item.route, kind);
  if (item.group == Groups::kNone) {
    attachment_->set_user(item.call, u64(slot) + 1);
  } else {
    groups_.link(item.group, slot, item.route);
  }
  deadlines.set(slot, due_ns);
}

void Items::release(u32 slot) {
  Item& item = items_[slot];
  deadlines.clear(slot);
  generations.close(slot);
  spans.drop(slot);
  large_answers.release(slot);
  attachments.release(slot);
  if (!std::exchange(item.held, false)) return;  // it was never accepted, or is of an earlier incarnation of this door
  end_wait(slot);
  counts.remove(tenant_of_[slot], class_of(item.priority));
  tenants_.release(tenant_of_[slot]);
  routes_.release(item.route);
  if (item.grouped) room_.leave(slot);
  if (std::exchange(item.holds_connection, false)) attachment_->released(item.connection);
  if (item.group != Groups::kNone) {
    groups_.unlink(std::exchange(item.group, Groups::kNone), slot);
  } else if (!item.answered) {
    attachment_->set_user(item.call, 0);  // refused after its call knew it: finish() follows
  }
}

}  // namespace fastqps::service
