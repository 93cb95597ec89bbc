#include <algorithm>
#include <concepts>

#include "contract/fields.h"
#include "contract/request_fields.h"
#include "edge/messages/seal.h"

namespace fastqps::edge {

namespace {

// The fields that all versions of the protocol read.
using HelloFields = Fields<Field<1, Varint, &StepHello::protocol>, Field<2, Text, &StepHello::model>,
                           Field<3, Text, &StepHello::version>>;

// A Sampling: the fields of GenerateOptions whose values differ from the defaults.
struct SamplingFields : OptionFields<kSamplingOptions> {
  static size_t size(const Sampling& sampling) {
    size_t sum = 0;
    each_field(sampling, [&](u32 number, const auto& value) { sum += value_size(number, value); });
    return sum;
  }
  static void write(WireWriter& out, const Sampling& sampling) {
    each_field(sampling, [&](u32 number, const auto& value) { write_value(out, number, value); });
  }

 private:
  // Calls f(number, value) for each of these fields, and for each id of a list.
  template <class F>
  static void each_field(const Sampling& sampling, F f) {
    constexpr Sampling kDefault;
    each_option(kSamplingOptions, [&](const auto& row) {
      const auto& value = sampling.*row.member;
      if constexpr (requires { value.all(); }) {
        for (const u32 id : value.all()) f(row.number, id);
      } else if (value != kDefault.*row.member) {
        f(row.number, value);
      }
    });
  }
  static size_t value_size(u32 number, std::integral auto value) {
    return varint_size(varint_tag(number)) + varint_size(value);
  }
  static size_t value_size(u32 number, float) { return varint_size(fixed32_tag(number)) + sizeof(float); }
  static void write_value(WireWriter& out, u32 number, std::integral auto value) {
    out.varint(varint_tag(number)), out.varint(value);
  }
  static void write_value(WireWriter& out, u32 number, float value) {
    out.varint(fixed32_tag(number));
    out.raw(&value, sizeof value);
  }
};

// At most so many.
template <class Kind, size_t most>
struct Bounded : Repeated<Kind> {
  template <class T>
  static bool read(WireReader& in, std::vector<T>& values) {
    return values.size() < most && Kind::read(in, values.emplace_back());
  }
};
struct Name : GivenText {
  static bool read(WireReader& in, std::string_view& text) { return Text::read(in, text); }
};
using Names = Bounded<Name, kStepNamesMax>;

// A field that is not known is refused: without it, other tokens would be chosen.
struct SamplingPart : Submessage<SamplingFields> {
  static bool read(WireReader& in, Sampling& sampling) {
    std::string_view part;
    return in.bytes(&part) && SamplingFields::read(part, sampling, refuse) && sampling.stop_ids.count <= IdList::kMax &&
           sampling.suppress_ids.count <= IdList::kMax;
  }
};

template <class Columns>
using RequestFields =
    Fields<Field<1, Bytes, &Columns::hello>, Field<2, Column, &Columns::items>, Field<3, Column, &Columns::lengths>,
           Field<4, Column, &Columns::ids>, Field<5, Column, &Columns::first_lengths>,
           Field<6, Column, &Columns::timeouts>, Field<7, Column, &Columns::options>, Field<8, Names, &Columns::names>,
           Field<9, Column, &Columns::callers>, Field<10, Bounded<SamplingPart, kStepItemsMax>, &Columns::generates>,
           Field<11, Column, &Columns::cancels>, Field<12, Fixed64, &Columns::echo>, Field<13, Column, &Columns::spans>,
           Field<14, Names, &Columns::trace_states>,
           Field<16, LongTag<Bounded<GivenText, kStepPartsMax>>, &Columns::parts>,
           Field<17, LongTag<Column>, &Columns::attached>>;
using WrittenFields = RequestFields<StepColumns<std::string>>;
using ReadFields = RequestFields<StepColumns<std::string_view>>;

constexpr size_t kSpanWords = 1 + sizeof(SpanContext) / sizeof(u64);
static_assert(sizeof(SpanContext) == 24);
constexpr size_t kAttachedWords = 3;

// Adds an entry to a column that is left out while all entries are zero. before: how many items came before it.
template <class T>
void append(std::vector<T>& column, size_t before, T value) {
  if (column.empty() && !value) return;
  column.resize(before);
  column.push_back(value);
}

}  // namespace

void StepRequestWriter::hello(const StepHello& hello) {
  columns_.hello.resize(HelloFields::size(hello));
  WireWriter out(reinterpret_cast<u8*>(columns_.hello.data()));
  HelloFields::write(out, hello);
}

void StepRequestWriter::add(const StepItem& item) {
  const size_t before = columns_.items.size();
  if (!columns_.first_lengths.empty() || item.first_len != item.ids.size()) {
    if (columns_.first_lengths.empty()) columns_.first_lengths = columns_.lengths;
    columns_.first_lengths.push_back(item.first_len);
  }
  columns_.items.push_back(item.number);
  columns_.lengths.push_back(u32(item.ids.size()));
  columns_.ids.insert(columns_.ids.end(), item.ids.begin(), item.ids.end());
  append(columns_.timeouts, before, item.timeout_us);
  append(columns_.options, before, item.options.pack());
  append(columns_.callers, before, name(item.tenant) | name(item.group) << 16);
  if (item.generate) columns_.generates.push_back(*item.generate);
  for (u32 kind = 0; kind < kAttachmentKinds; kind++)
    if (!item.attached[kind].empty())
      columns_.attached.insert(columns_.attached.end(), {u32(before), kind, part(item.attached[kind])});
  if (!item.span) return;
  const size_t at = columns_.spans.size();
  columns_.spans.resize(at + kSpanWords);
  columns_.spans[at] = before;
  std::memcpy(&columns_.spans[at + 1], item.span, sizeof *item.span);
  if (columns_.trace_states.empty() && item.trace_state.empty()) return;
  columns_.trace_states.resize(at / kSpanWords);
  columns_.trace_states.emplace_back(item.trace_state);
}

// The place of a name, from 1 on; 0: none. Neighbours often have the same. One that is not among the last is written
// again: there is room for two names of each item.
u32 StepRequestWriter::name(std::string_view text) {
  constexpr size_t kLooked = 4;
  if (text.empty()) return 0;
  for (size_t i = columns_.names.size(); i > 0 && columns_.names.size() - i < kLooked; i--)
    if (columns_.names[i - 1] == text) return u32(i);
  if (columns_.names.size() == kStepNamesMax) return 0;
  columns_.names.emplace_back(text);
  return u32(columns_.names.size());
}

// The place of a part. Many requests may have the same, and it may be large.
u32 StepRequestWriter::part(std::string_view bytes) {
  auto& parts = columns_.parts;
  const auto found = std::find(parts.begin(), parts.end(), bytes);
  const u32 place = u32(found - parts.begin());
  if (found == parts.end()) part_bytes_ += bytes.size(), parts.emplace_back(bytes);
  return place;
}

size_t StepRequestWriter::size() const { return WrittenFields::size(columns_) + kChecksumBytes; }

u8* StepRequestWriter::write(u8* begin) const {
  WireWriter out(begin);
  WrittenFields::write(out, columns_);
  return seal(begin, out.end());
}

const char* StepRequestReader::read(std::span<const u8> message) {
  columns_.clear(), begins_.clear();
  const std::string_view body = unseal(message);
  if (!body.data()) return "its checksum is wrong: its bytes were changed on the way";
  if (!ReadFields::read(body, columns_)) return kNoMessage;
  hello_ = {.protocol = 0, .model = {}, .version = {}};
  if (has_hello() && !HelloFields::read(columns_.hello, hello_)) return kNoMessage;
  return check_columns();
}

// Makes item() safe: every column is complete or absent, and every place is in its column.
const char* StepRequestReader::check_columns() {
  auto& c = columns_;
  const size_t n = c.items.size();
  if (n > kStepItemsMax) return "more than 1024 items";
  if (c.cancels.size() > kStepItemsMax) return "more than 1024 cancels";
  std::sort(c.cancels.begin(), c.cancels.end());
  auto fits = [n](size_t entries) { return entries == 0 || entries == n; };
  if (c.lengths.size() != n || !fits(c.first_lengths.size()) || !fits(c.timeouts.size()) || !fits(c.options.size()) ||
      !fits(c.callers.size()) || !fits(c.generates.size()))
    return "columns of different lengths";
  if (c.spans.size() % kSpanWords) return "a span that is cut off";
  for (size_t i = 0; i < c.spans.size(); i += kSpanWords)
    if (c.spans[i] >= n || (i && c.spans[i] <= c.spans[i - kSpanWords])) return "a span of an item that is not there";
  if (!c.trace_states.empty() && c.trace_states.size() != c.spans.size() / kSpanWords)
    return "columns of different lengths";
  u64 at = 0;
  begins_.reserve(n);
  for (size_t i = 0; i < n; i++) {
    begins_.push_back(u32(at));
    at += c.lengths[i];
    if (at > c.ids.size()) return "fewer ids than its items have";
    if (!c.items[i]) return "an item without a number";
    if (!c.first_lengths.empty() && c.first_lengths[i] > c.lengths[i]) return "a first text longer than its item";
    if (!c.callers.empty() && ((c.callers[i] & 0xffff) > c.names.size() || c.callers[i] >> 16 > c.names.size()))
      return "an item with a name that is not there";
  }
  return at == c.ids.size() ? check_attached() : "more ids than its items have";
}

const char* StepRequestReader::check_attached() const {
  const std::vector<u32>& words = columns_.attached;
  if (words.size() % kAttachedWords) return "an attachment that is cut off";
  u64 before = 0;
  for (size_t i = 0; i < words.size(); i += kAttachedWords) {
    const u64 order = u64(words[i]) * kAttachmentKinds + words[i + 1] + 1;
    if (words[i] >= columns_.items.size() || words[i + 1] >= kAttachmentKinds || order <= before)
      return "an attachment of an item that is not there";
    if (words[i + 2] >= columns_.parts.size()) return "an attachment that is not there";
    before = order;
  }
  return nullptr;
}

// Few items have one, and they are in order.
void StepRequestReader::read_span(u32 i, StepItem& item) const {
  const std::vector<u64>& spans = columns_.spans;
  size_t from = 0, to = spans.size() / kSpanWords;
  while (from < to) {
    const size_t middle = (from + to) / 2;
    spans[middle * kSpanWords] < i ? from = middle + 1 : to = middle;
  }
  const size_t at = from * kSpanWords;
  if (at == spans.size() || spans[at] != i) return;
  item.span = reinterpret_cast<const SpanContext*>(&spans[at + 1]);
  if (!columns_.trace_states.empty()) item.trace_state = columns_.trace_states[from];
}

// In the order of the items, too.
void StepRequestReader::read_attached(u32 i, StepItem& item) const {
  const std::vector<u32>& words = columns_.attached;
  size_t from = 0, to = words.size() / kAttachedWords;
  while (from < to) {
    const size_t middle = (from + to) / 2;
    words[middle * kAttachedWords] < i ? from = middle + 1 : to = middle;
  }
  for (size_t at = from * kAttachedWords; at < words.size() && words[at] == i; at += kAttachedWords)
    item.attached[words[at + 1]] = columns_.parts[words[at + 2]];
}

StepItem StepRequestReader::item(u32 i) const {
  const auto& c = columns_;
  const std::span<const u32> ids{c.ids.data() + begins_[i], c.lengths[i]};
  StepItem item{.number = c.items[i],
                .ids = ids,
                .first_len = c.first_lengths.empty() ? u32(ids.size()) : c.first_lengths[i],
                .timeout_us = c.timeouts.empty() ? 0 : c.timeouts[i],
                .options = c.options.empty() ? StepOptions{} : StepOptions::unpack(c.options[i]),
                .generate = c.generates.empty() ? nullptr : &c.generates[i]};
  if (!c.spans.empty()) read_span(i, item);
  if (!c.attached.empty()) read_attached(i, item);
  const u32 caller = c.callers.empty() ? 0 : c.callers[i];
  if (caller & 0xffff) item.tenant = c.names[(caller & 0xffff) - 1];
  if (caller >> 16) item.group = c.names[(caller >> 16) - 1];
  return item;
}

}  // namespace fastqps::edge
