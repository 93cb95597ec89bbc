#include <algorithm>

#include "contract/fields.h"
#include "edge/messages/seal.h"

namespace fastqps::edge {

namespace {

// The fields that all versions of the protocol read.
using HelloFields = Fields<Field<1, Varint, &StepHello::protocol>, Field<2, Text, &StepHello::model>,
                           Field<3, Text, &StepHello::version>>;

struct Ids {
  static constexpr WireType kType = WireType::kLength;
  static size_t size(const u32*, u32 n) { return bytes_size(4 * n); }
  static void write(WireWriter& out, u32 number, const u32* ids, u32 n) { out.bytes(number, ids, 4 * n); }
  static bool read(WireReader& in, u32* ids, u32& n) {
    std::string_view packed;
    if (!in.bytes(&packed) || packed.size() % 4 || packed.size() > 4 * StepGenerate::kIdsMax) return false;
    std::memcpy(ids, packed.data(), packed.size());
    n = u32(packed.size() / 4);
    return true;
  }
};

// One that is not known is refused: without it, other tokens would be chosen.
using GenerateFields =
    Fields<Field<1, Fixed64, &StepGenerate::seed>, Field<2, Varint, &StepGenerate::max_tokens>,
           Field<3, Fixed32, &StepGenerate::temperature>, Field<4, Fixed32, &StepGenerate::top_p>,
           Field<5, Varint, &StepGenerate::top_k>, Field<6, Fixed32, &StepGenerate::repetition_penalty>,
           Field<7, Varint, &StepGenerate::no_repeat_ngram_size>, Field<8, Varint, &StepGenerate::min_tokens>,
           Field<9, Varint, &StepGenerate::min_length>,
           Field<10, Ids, &StepGenerate::stop_ids, &StepGenerate::n_stop_ids>,
           Field<11, Ids, &StepGenerate::suppress_ids, &StepGenerate::n_suppress_ids>>;

// Each of them, the empty ones, too.
struct Texts {
  static constexpr WireType kType = WireType::kLength;
  static size_t size(const std::vector<std::string>& texts) {
    size_t sum = 0;
    for (const std::string& text : texts) sum += delimited_size(text.size());
    return sum;
  }
  static void write(WireWriter& out, u32 number, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      out.head(number, text.size());
      out.raw(text.data(), text.size());
    }
  }
  static bool read(WireReader& in, std::vector<std::string_view>& texts) {
    return texts.size() < kStepNamesMax && Text::read(in, texts.emplace_back());
  }
};

struct Generates {
  static constexpr WireType kType = WireType::kLength;
  static size_t size(const std::vector<StepGenerate>& generates) {
    size_t sum = 0;
    for (const StepGenerate& each : generates) sum += delimited_size(GenerateFields::size(each));
    return sum;
  }
  static void write(WireWriter& out, u32 number, const std::vector<StepGenerate>& generates) {
    for (const StepGenerate& each : generates) {
      out.head(number, GenerateFields::size(each));
      GenerateFields::write(out, each);
    }
  }
  static bool read(WireReader& in, std::vector<StepGenerate>& generates) {
    std::string_view part;
    if (generates.size() == kStepItemsMax || !in.bytes(&part)) return false;
    StepGenerate& each = generates.emplace_back();
    each.top_p = each.repetition_penalty = 0;  // zeros are not written
    return GenerateFields::read(part, each, refuse);
  }
};

template <class Columns>
using RequestFields =
    Fields<Field<1, Bytes, &Columns::hello>, Field<2, Column, &Columns::items>, Field<3, Column, &Columns::lengths>,
           Field<4, Column, &Columns::ids>, Field<5, Column, &Columns::first_lengths>,
           Field<6, Column, &Columns::timeouts>, Field<7, Column, &Columns::options>, Field<8, Texts, &Columns::names>,
           Field<9, Column, &Columns::callers>, Field<10, Generates, &Columns::generates>,
           Field<11, Column, &Columns::cancels>, Field<12, Fixed64, &Columns::echo>, Field<13, Column, &Columns::spans>,
           Field<14, Texts, &Columns::trace_states>>;
using WrittenFields = RequestFields<StepColumns<std::string>>;
using ReadFields = RequestFields<StepColumns<std::string_view>>;

constexpr size_t kSpanWords = 1 + sizeof(SpanContext) / sizeof(u64);
static_assert(sizeof(SpanContext) == 24);

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
  return at == c.ids.size() ? nullptr : "more ids than its items have";
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
  const u32 caller = c.callers.empty() ? 0 : c.callers[i];
  if (caller & 0xffff) item.tenant = c.names[(caller & 0xffff) - 1];
  if (caller >> 16) item.group = c.names[(caller >> 16) - 1];
  return item;
}

}  // namespace fastqps::edge
