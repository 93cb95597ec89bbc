#include "service/answers/answers.h"

#include <algorithm>

namespace fastqps::service {

// Sends the last message of a call with one item, and ends the call. write(out) fills `size` bytes.
template <class Write>
void Answers::end_call(const Item& item, size_t size, Write write) {
  u8* out = attachment_->begin_message(item.call, size);
  if (out) {
    write(out);
    attachment_->set_header(item.call, routes_.header(item.route));
    attachment_->commit_message(item.call, size);
    attachment_->finish(item.call);
  }
  counts_.call(item.route, item.method, out ? StatusCode::kOk : StatusCode::kCancelled, item.received_ns);
}

void Answers::answer(const Item& item, const ResponseView& response) {
  counts_.item(item.route, StatusCode::kOk);
  if (item.group != Groups::kNone) return groups_.answer(item.group, item.index, response);
  end_call(item, response_size(response), [&](u8* out) { write_response(response, out); });
}

void Answers::answer(const Item& item, const ChunkView& last) {
  counts_.item(item.route, StatusCode::kOk);
  if (item.group != Groups::kNone) return groups_.answer(item.group, last);
  end_call(item, chunk_size(last), [&](u8* out) { write_chunk(last, out); });
}

bool Answers::send_chunk(const Item& item, const ChunkView& chunk) {
  if (item.group != Groups::kNone) return groups_.send_chunk(item.group, chunk);
  const size_t size = chunk_size(chunk);
  u8* out = attachment_->begin_message(item.call, size);
  if (!out) return false;
  write_chunk(chunk, out);
  attachment_->set_header(item.call, routes_.header(item.route));
  attachment_->commit_message(item.call, size);
  return true;
}

// Of a call with many items some part of another one always waits. So what counts there is how much waits.
bool Answers::takes_more(const Item& item) const {
  const bool shared = item.group != Groups::kNone && groups_.shares_call(item.group);
  return shared ? attachment_->writable(item.call) : attachment_->caught_up(item.call);
}

void Answers::answer(const Item& item, const Refusal& refusal) {
  counts_.item(item.route, refusal.code);
  if (item.held && refusal.code == StatusCode::kUnavailable) bump(memory_.line.lost_items);
  if (item.group != Groups::kNone) return groups_.refuse(item.group, item.index, item.request_id, refusal);
  attachment_->set_header(item.call, routes_.header(item.route));
  attachment_->finish(item.call, {refusal.code, refusal.message, refusal.retry_after_ms, refusal.field});
  counts_.call(item.route, item.method, refusal.code, item.received_ns);
}

void Answers::refuse(const Origin& from, const RequestView& view, const Refusal& refusal) {
  const i32 route = routes_.find(view.model);
  Item item;
  item.call = from.call;
  item.request_id = view.request_id;
  item.received_ns = from.info->receive_ns;
  item.group = from.group;
  item.index = from.index;
  item.route = u16(route < 0 ? routes_.first() : u32(route));
  item.method = from.method;
  answer(item, refusal);
}

}  // namespace fastqps::service
