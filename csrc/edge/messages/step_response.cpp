#include "contract/fields.h"
#include "edge/messages/seal.h"

namespace fastqps::edge {

namespace {

constexpr u32 kReady = 1, kRow = 2, kLoad = 3;  // the fields of a message

using ReadyFields = Fields<Field<1, Varint, &StepReady::protocol>, Field<2, Varint, &StepReady::max_input_tokens>,
                           Field<3, Varint, &StepReady::max_output_tokens>, Field<4, Varint, &StepReady::max_inflight>,
                           Field<5, Text, &StepReady::server>>;

using LoadFields = Fields<Field<1, Fixed64, &StepLoad::echo>, Field<2, Varint, &StepLoad::utilization_thousandth>,
                          Field<3, Varint, &StepLoad::waiting>, Field<4, Varint, &StepLoad::running>,
                          Field<5, Varint, &StepLoad::draining>, Field<6, Varint, &StepLoad::items_per_s>>;

// Written from parts; read, it is all in the first.
struct Values {
  static constexpr WireType kType = WireType::kLength;
  static size_t size(const StepRow::Parts& values) { return bytes_size(bytes_of(values)); }
  static void write(WireWriter& out, u32 number, const StepRow::Parts& values) {
    if (!bytes_of(values)) return;
    out.head(number, bytes_of(values));
    for (const auto& part : values) out.raw(part.data(), part.size());
  }
  static bool read(WireReader& in, StepRow::Parts& values) {
    std::string_view bytes;
    if (!in.bytes(&bytes)) return false;
    values = {};
    values[0] = {reinterpret_cast<const u8*>(bytes.data()), bytes.size()};
    return true;
  }

 private:
  static size_t bytes_of(const StepRow::Parts& values) {
    size_t bytes = 0;
    for (const auto& part : values) bytes += part.size();
    return bytes;
  }
};

using RowFields =
    Fields<Field<1, Fixed32, &StepRow::item>, Field<2, Varint, &StepRow::status>, Field<3, Text, &StepRow::message>,
           Field<4, Varint, &StepRow::retry_after_ms>, Field<5, Varint, &StepRow::kind>,
           Field<6, Varint, &StepRow::dtype>, Field<7, Varint, &StepRow::n_values>, Field<8, Values, &StepRow::values>,
           Field<9, Varint, &StepRow::finish>, Field<10, Varint, &StepRow::batch_items>,
           Field<11, Varint, &StepRow::queue_us>, Field<12, Varint, &StepRow::device_us>>;

template <class Fields, class Part>
u8* write_part(u32 number, const Part& part, u8* begin) {
  WireWriter out(begin);
  out.head(number, Fields::size(part));
  Fields::write(out, part);
  return out.end();
}

}  // namespace

size_t step_ready_size(const StepReady& ready) { return delimited_size(ReadyFields::size(ready)); }
size_t step_load_size(const StepLoad& load) { return delimited_size(LoadFields::size(load)); }
size_t step_row_size(const StepRow& row) { return delimited_size(RowFields::size(row)); }
u8* write_step_ready(const StepReady& ready, u8* out) { return write_part<ReadyFields>(kReady, ready, out); }
u8* write_step_load(const StepLoad& load, u8* out) { return write_part<LoadFields>(kLoad, load, out); }
u8* write_step_row(const StepRow& row, u8* out) { return write_part<RowFields>(kRow, row, out); }
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
    std::string_view part;
    if (!in.tag(&tag)) return kNoMessage;
    bool sound;
    switch (tag) {
      case length_tag(kReady):
        ready_ = {.protocol = 0};
        sound = in.bytes(&part) && ReadyFields::read(part, ready_) && ready_.protocol;
        break;
      case length_tag(kRow):
        sound = in.bytes(&part);
        break;
      case length_tag(kLoad):
        load_ = {};
        sound = has_load_ = in.bytes(&part) && LoadFields::read(part, load_);
        break;
      default:
        sound = skip(in, tag);
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
    if (tag != length_tag(kRow)) {
      if (!skip(in, tag)) return false;
      continue;
    }
    if (!in.bytes(&part)) return false;
    rest_.remove_prefix(size_t(in.at() - rest_.data()));
    row = {};
    if (!RowFields::read(part, row) || !row.item) row = {};
    return true;
  }
  return false;
}

}  // namespace fastqps::edge
