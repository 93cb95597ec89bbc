#include "wire/step_fields.h"

namespace fastqps::front {

using namespace step;

namespace {

size_t ready_size(const StepReady& r) {
  return scalar_size(r.protocol) + scalar_size(r.max_input_tokens) + scalar_size(r.max_output_tokens) +
         scalar_size(r.max_inflight) + bytes_size(r.server.size());
}

void write_ready(WireWriter& out, const StepReady& r) {
  out.head(1, ready_size(r));
  out.scalar(1, r.protocol);
  out.scalar(2, r.max_input_tokens);
  out.scalar(3, r.max_output_tokens);
  out.scalar(4, r.max_inflight);
  out.string(5, r.server);
}

// As read_hello().
bool read_ready(WireReader& in, StepReady& r) {
  r = {.protocol = 0};
  return read_submessage(in, [&r](WireReader& of, u32 tag) {
    if (tag == varint_tag(1)) return take_u32(of, &r.protocol);
    if (tag == varint_tag(2)) return take_u32(of, &r.max_input_tokens);
    if (tag == varint_tag(3)) return take_u32(of, &r.max_output_tokens);
    if (tag == varint_tag(4)) return take_u32(of, &r.max_inflight);
    if (tag == length_tag(5)) return read_text(of, &r.server);
    return of.skip(tag, kWireDepthMax);
  });
}

size_t load_size(const StepLoad& l) {
  return fixed64_field(l.echo) + scalar_size(l.utilization_thousandth) + scalar_size(l.waiting) +
         scalar_size(l.running) + scalar_size(l.draining) + scalar_size(l.items_per_s);
}

void write_load(WireWriter& out, const StepLoad& l) {
  out.head(3, load_size(l));
  write_fixed64(out, 1, l.echo);
  out.scalar(2, l.utilization_thousandth);
  out.scalar(3, l.waiting);
  out.scalar(4, l.running);
  out.scalar(5, l.draining);
  out.scalar(6, l.items_per_s);
}

bool read_load(WireReader& in, StepLoad& l) {
  l = {};
  return read_submessage(in, [&l](WireReader& of, u32 tag) {
    u32 draining = 0;
    switch (tag) {
      case fixed64_tag(1):
        return read_fixed64(of, &l.echo);
      case varint_tag(2):
        return take_u32(of, &l.utilization_thousandth);
      case varint_tag(3):
        return take_u32(of, &l.waiting);
      case varint_tag(4):
        return take_u32(of, &l.running);
      case varint_tag(5):
        if (!take_u32(of, &draining)) return false;
        l.draining = draining != 0;
        return true;
      case varint_tag(6):
        return take_u32(of, &l.items_per_s);
      default:
        return of.skip(tag, kWireDepthMax);
    }
  });
}

}  // namespace

namespace {

size_t row_size(const StepRow& r) {
  return fixed32_field(r.item) + scalar_size(r.status) + bytes_size(r.message.size()) + scalar_size(r.retry_after_ms) +
         scalar_size(r.kind) + scalar_size(r.dtype) + scalar_size(r.n_values) +
         bytes_size(r.values.size() + r.more_values.size()) + scalar_size(r.finish) + scalar_size(r.batch_items) +
         scalar_size(r.queue_us) + scalar_size(r.device_us);
}

bool read_row(std::string_view bytes, StepRow& r) {
  for (WireReader in(bytes); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return false;
    bool sound = false;
    std::string_view values;
    switch (tag) {
      case fixed32_tag(1):
        sound = read_fixed32(in, &r.item);
        break;
      case varint_tag(2):
        sound = take_u32(in, &r.status);
        break;
      case length_tag(3):
        sound = read_text(in, &r.message);
        break;
      case varint_tag(4):
        sound = take_u32(in, &r.retry_after_ms);
        break;
      case varint_tag(5):
        sound = take_u32(in, &r.kind);
        break;
      case varint_tag(6):
        sound = take_u32(in, &r.dtype);
        break;
      case varint_tag(7):
        sound = take_u32(in, &r.n_values);
        break;
      case length_tag(8):
        sound = in.bytes(&values);
        r.values = {reinterpret_cast<const u8*>(values.data()), values.size()};
        break;
      case varint_tag(9):
        sound = take_u32(in, &r.finish);
        break;
      case varint_tag(10):
        sound = take_u32(in, &r.batch_items);
        break;
      case varint_tag(11):
        sound = take_u32(in, &r.queue_us);
        break;
      case varint_tag(12):
        sound = take_u32(in, &r.device_us);
        break;
      default:
        sound = in.skip(tag, kWireDepthMax);
    }
    if (!sound) return false;
  }
  return r.item != 0;
}

}  // namespace

size_t step_ready_size(const StepReady& ready) { return delimited_size(ready_size(ready)); }
size_t step_load_size(const StepLoad& load) { return delimited_size(load_size(load)); }
size_t step_row_size(const StepRow& row) { return delimited_size(row_size(row)); }

u8* write_step_ready(const StepReady& ready, u8* begin) {
  WireWriter out(begin);
  write_ready(out, ready);
  return out.end();
}

u8* write_step_load(const StepLoad& load, u8* begin) {
  WireWriter out(begin);
  write_load(out, load);
  return out.end();
}

u8* write_step_row(const StepRow& r, u8* begin) {
  WireWriter out(begin);
  out.head(2, row_size(r));
  write_fixed32(out, 1, r.item);
  out.scalar(2, r.status);
  out.string(3, r.message);
  out.scalar(4, r.retry_after_ms);
  out.scalar(5, r.kind);
  out.scalar(6, r.dtype);
  out.scalar(7, r.n_values);
  if (const size_t bytes = r.values.size() + r.more_values.size()) {
    out.head(8, bytes);
    out.raw(r.values.data(), r.values.size());
    out.raw(r.more_values.data(), r.more_values.size());
  }
  out.scalar(9, r.finish);
  out.scalar(10, r.batch_items);
  out.scalar(11, r.queue_us);
  out.scalar(12, r.device_us);
  return out.end();
}

u8* seal_step_message(const u8* begin, u8* end) { return seal(begin, end); }

// Rows are only measured here, so that a damaged one is found before any is used.
const char* StepResponseReader::read(std::span<const u8> message) {
  ready_ = {.protocol = 0};
  has_load_ = false;
  const std::string_view body = unseal(message);
  if (!body.data()) return "its checksum is wrong: its bytes were changed on the way";
  rest_ = body;
  for (WireReader in(body); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return kNoMessage;
    bool sound = false;
    std::string_view part;
    switch (tag) {
      case length_tag(1):
        sound = read_ready(in, ready_) && ready_.protocol;
        break;
      case length_tag(2):
        sound = in.bytes(&part);
        break;
      case length_tag(3):
        sound = has_load_ = read_load(in, load_);
        break;
      default:
        sound = in.skip(tag, kWireDepthMax);
    }
    if (!sound) return kNoMessage;
  }
  return nullptr;
}

// A row that cannot be read has no item: nobody is answered by it.
bool StepResponseReader::next_row(StepRow& row) {
  for (WireReader in(rest_); !in.done();) {
    u32 tag;
    std::string_view part;
    if (!in.tag(&tag)) return false;
    if (tag != length_tag(2)) {
      if (!in.skip(tag, kWireDepthMax)) return false;
      continue;
    }
    if (!in.bytes(&part)) return false;
    rest_.remove_prefix(size_t(in.at() - rest_.data()));
    row = {};
    if (!read_row(part, row)) row = {};
    return true;
  }
  return false;
}

}  // namespace fastqps::front
