// The messages between an edge and the server that runs its steps (proto/fastqps/v1/step.proto), written and read in
// place. Little-endian: columns of fixed numbers are copied as they are.
//
// Every message ends with a checksum, because TCP's is too weak: a flipped bit in a vector would otherwise be an
// answer.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/wire.h"
#include "core/layout.h"

namespace fastqps::edge {

inline constexpr const char* kStepRunPath = "/fastqps.v1.StepService/Run";
inline constexpr u32 kStepProtocol = 7;                                 // grows with every change of the messages
inline constexpr u32 kStepItemsMax = 1024;                              // items of one message
inline constexpr u32 kStepNamesMax = 2048;                              // names of one message
inline constexpr u32 kStepPartsMax = kStepItemsMax * kAttachmentKinds;  // attachments of one message
inline constexpr size_t kChecksumBytes = 9;                             // of the last field: its tag and the sum

// A sum of 64 bits. A change of one aligned word of 8 bytes always changes it, others in all but one of 2^64 cases.
u64 step_checksum(const u8* data, size_t bytes);

struct StepHello {
  u32 protocol = kStepProtocol;
  std::string_view model, version;
};

// The form of an item's answer, and its priority.
struct StepOptions {
  u8 dtype = 0, flags = 0, aggregation = 0, priority = 0;  // flags: SlotFlag
  u16 top_labels = 0, dimensions = 0;

  u64 pack() const {
    return u64(dtype) | u64(flags) << 8 | u64(aggregation) << 16 | u64(priority) << 24 | u64(top_labels) << 32 |
           u64(dimensions) << 48;
  }
  static StepOptions unpack(u64 bits) {
    return {u8(bits), u8(bits >> 8), u8(bits >> 16), u8(bits >> 24), u16(bits >> 32), u16(bits >> 48)};
  }
};

// ---- StepRequest

struct StepItem {
  u32 number = 0;
  std::span<const u32> ids;
  u32 first_len = 0;
  u32 timeout_us = 0;  // 0: none
  StepOptions options;
  std::string_view tenant = {}, group = {};  // empty: none
  const Sampling* generate = nullptr;        // of a generator; else nullptr
  const SpanContext* span = nullptr;         // nullptr: it is not traced
  std::string_view trace_state = {};         // only with a span
  // By AttachmentKind, as they lie beside a slot (docs/shared-memory.md); empty: none.
  std::array<std::string_view, kAttachmentKinds> attached = {};
};

// The fields of a message. A column has an entry for each item, or none if all entries are the default. Text:
// std::string where items are collected, std::string_view where they are read.
template <class Text>
struct StepColumns {
  Text hello;  // the fields of a StepHello
  std::vector<u32> items, lengths, ids, first_lengths, timeouts, callers, cancels;
  std::vector<u64> options;
  std::vector<u64> spans;  // of each traced item: its place among the message's, and its SpanContext
  std::vector<Text> names, trace_states;
  std::vector<Text> parts;    // attachments, equal ones once
  std::vector<u32> attached;  // of each that an item has: its place among the message's, the kind, the part's place
  std::vector<Sampling> generates;
  u64 echo = 0;

  void clear() {
    hello = {};
    for (auto* column : {&items, &lengths, &ids, &first_lengths, &timeouts, &callers, &cancels}) column->clear();
    options.clear(), spans.clear(), names.clear(), trace_states.clear(), generates.clear();
    parts.clear(), attached.clear();
    echo = 0;
  }
};

// Collects items and writes them as one message.
class StepRequestWriter {
 public:
  void clear() { columns_.clear(), part_bytes_ = 0; }
  void hello(const StepHello& hello);
  void add(const StepItem& item);
  void cancel(u32 number) { columns_.cancels.push_back(number); }
  void echo(u64 number) { columns_.echo = number; }

  u32 items() const { return u32(columns_.items.size()); }
  u32 tokens() const { return u32(columns_.ids.size()); }
  u32 cancels() const { return u32(columns_.cancels.size()); }
  size_t part_bytes() const { return part_bytes_; }
  bool empty() const { return !items() && !cancels() && !columns_.echo && columns_.hello.empty(); }
  // The exact number of bytes that write() writes.
  size_t size() const;
  // Returns the end of what was written.
  u8* write(u8* out) const;

 private:
  u32 name(std::string_view text);
  u32 part(std::string_view bytes);

  StepColumns<std::string> columns_;
  size_t part_bytes_ = 0;  // of all parts
};

// Reads one message. What it returns is valid until the next read(), as long as the message's bytes are.
class StepRequestReader {
 public:
  // Returns why the bytes cannot be a message; nullptr: they are one.
  const char* read(std::span<const u8> message);

  bool has_hello() const { return columns_.hello.data(); }
  const StepHello& hello() const { return hello_; }
  u32 items() const { return u32(columns_.items.size()); }
  // i < items().
  StepItem item(u32 i) const;
  // In ascending order.
  std::span<const u32> cancels() const { return columns_.cancels; }
  u64 echo() const { return columns_.echo; }

 private:
  const char* check_columns();
  const char* check_attached() const;
  void read_span(u32 i, StepItem& item) const;
  void read_attached(u32 i, StepItem& item) const;

  StepColumns<std::string_view> columns_;
  StepHello hello_;
  std::vector<u32> begins_;  // of the items' ids
};

// ---- StepResponse

struct StepReady {
  u32 protocol = kStepProtocol;
  u32 max_input_tokens = 0, max_output_tokens = 0, max_inflight = 0;
  std::string_view server = {};
};

struct StepLoad {
  u64 echo = 0;
  u32 utilization_thousandth = 0, waiting = 0, running = 0;
  bool draining = false;
  u32 items_per_s = 0;
};

// The answer to an item. Fields that are zero are left out.
struct StepRow {
  u32 item = 0;
  u32 status = 0;
  std::string_view message = {};
  u32 retry_after_ms = 0;
  u32 kind = 0, dtype = 0, n_values = 0;
  // The parts of a generation are its columns: ids, logprobs, and ids and logprobs of the likeliest tokens. After
  // reading, all is in the first.
  using Parts = std::array<std::span<const u8>, 4>;
  Parts values = {};
  u32 finish = 0, batch_items = 0, queue_us = 0, device_us = 0;
};

// A message is its parts one behind the other, and a seal. Each function returns the end of what it has written.
size_t step_ready_size(const StepReady& ready);
size_t step_load_size(const StepLoad& load);
size_t step_row_size(const StepRow& row);
u8* write_step_ready(const StepReady& ready, u8* out);
u8* write_step_load(const StepLoad& load, u8* out);
u8* write_step_row(const StepRow& row, u8* out);
// The checksum of what lies from `begin` to `end`, behind it: kChecksumBytes.
u8* seal_step_message(const u8* begin, u8* end);

class StepResponseReader {
 public:
  // As StepRequestReader::read(). The rows are read one by one, with next_row().
  const char* read(std::span<const u8> message);
  // nullptr: the message has none.
  const StepReady* ready() const { return ready_.protocol ? &ready_ : nullptr; }
  const StepLoad* load() const { return has_load_ ? &load_ : nullptr; }
  // The next row. Returns false after the last one.
  bool next_row(StepRow& row);

 private:
  StepReady ready_;
  StepLoad load_;
  bool has_load_ = false;
  std::string_view rest_;  // the message from the next row on
};

}  // namespace fastqps::edge
