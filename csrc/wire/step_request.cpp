#include <algorithm>

#include "wire/step_fields.h"

namespace fastqps::front {

using namespace step;

namespace {

size_t generate_size(const StepGenerate& g) {
  return fixed64_field(g.seed) + scalar_size(g.max_tokens) + float32_size(g.temperature) + float32_size(g.top_p) +
         scalar_size(g.top_k) + float32_size(g.repetition_penalty) + scalar_size(g.no_repeat_ngram_size) +
         scalar_size(g.min_tokens) + scalar_size(g.min_length) + bytes_size(4 * g.n_stop_ids) +
         bytes_size(4 * g.n_suppress_ids);
}

void write_generate(WireWriter& out, const StepGenerate& g) {
  write_fixed64(out, 1, g.seed);
  out.scalar(2, g.max_tokens);
  out.float32(3, g.temperature);
  out.float32(4, g.top_p);
  out.scalar(5, g.top_k);
  out.float32(6, g.repetition_penalty);
  out.scalar(7, g.no_repeat_ngram_size);
  out.scalar(8, g.min_tokens);
  out.scalar(9, g.min_length);
  out.bytes(10, g.stop_ids, 4 * g.n_stop_ids);
  out.bytes(11, g.suppress_ids, 4 * g.n_suppress_ids);
}

bool read_ids(WireReader& in, u32* ids, u32* n) {
  std::string_view packed;
  if (!in.bytes(&packed) || packed.size() % 4 || packed.size() > 4 * StepGenerate::kIdsMax) return false;
  std::memcpy(ids, packed.data(), packed.size());
  *n = u32(packed.size() / 4);
  return true;
}

bool read_generate(WireReader& in, StepGenerate& g) {
  g.top_p = g.repetition_penalty = 0;  // zeros are not written
  return read_submessage(in, [&g](WireReader& of, u32 tag) {
    switch (tag) {
      case fixed64_tag(1):
        return read_fixed64(of, &g.seed);
      case varint_tag(2):
        return take_u32(of, &g.max_tokens);
      case fixed32_tag(3):
        return of.fixed32(&g.temperature);
      case fixed32_tag(4):
        return of.fixed32(&g.top_p);
      case varint_tag(5):
        return take_u32(of, &g.top_k);
      case fixed32_tag(6):
        return of.fixed32(&g.repetition_penalty);
      case varint_tag(7):
        return take_u32(of, &g.no_repeat_ngram_size);
      case varint_tag(8):
        return take_u32(of, &g.min_tokens);
      case varint_tag(9):
        return take_u32(of, &g.min_length);
      case length_tag(10):
        return read_ids(of, g.stop_ids, &g.n_stop_ids);
      case length_tag(11):
        return read_ids(of, g.suppress_ids, &g.n_suppress_ids);
      default:
        return false;
    }
  });
}

// Of other versions of the protocol, too: what is unknown is skipped.
bool read_hello(WireReader& in, StepHello& hello) {
  hello = {.protocol = 0, .model = {}, .version = {}};
  return read_submessage(in, [&hello](WireReader& of, u32 tag) {
    if (tag == varint_tag(1)) return take_u32(of, &hello.protocol);
    if (tag == length_tag(2)) return read_text(of, &hello.model);
    if (tag == length_tag(3)) return read_text(of, &hello.version);
    return of.skip(tag, kWireDepthMax);
  });
}

}  // namespace

void StepRequestWriter::clear() {
  hello_.clear(), items_.clear(), lengths_.clear(), ids_.clear(), first_lengths_.clear(), timeouts_.clear();
  callers_.clear(), cancels_.clear(), options_.clear(), names_.clear(), generates_.clear();
  names_bytes_ = generates_bytes_ = 0;
  echo_ = 0;
  pairs_ = limited_ = optioned_ = called_ = false;
}

void StepRequestWriter::hello(const StepHello& hello) {
  hello_.resize(scalar_size(hello.protocol) + bytes_size(hello.model.size()) + bytes_size(hello.version.size()));
  WireWriter out(hello_.data());
  out.scalar(1, hello.protocol);
  out.string(2, hello.model);
  out.string(3, hello.version);
}

void StepRequestWriter::add(const StepItem& item) {
  items_.push_back(item.number);
  lengths_.push_back(u32(item.ids.size()));
  ids_.insert(ids_.end(), item.ids.begin(), item.ids.end());
  first_lengths_.push_back(item.first_len);
  pairs_ |= item.first_len != item.ids.size();
  timeouts_.push_back(item.timeout_us);
  limited_ |= item.timeout_us != 0;
  options_.push_back(item.options.pack());
  optioned_ |= options_.back() != 0;
  callers_.push_back(name(item.tenant) | name(item.group) << 16);
  called_ |= callers_.back() != 0;
  if (!item.generate) return;
  generates_.push_back(*item.generate);
  generates_bytes_ += delimited_size(generate_size(*item.generate));
}

// The place of a name, from 1 on; 0: none. Neighbours often have the same. One that is not among the last is written
// again: there is room for two names of each item.
u32 StepRequestWriter::name(std::string_view text) {
  constexpr size_t kLooked = 4;
  if (text.empty()) return 0;
  for (size_t i = names_.size(); i > 0 && names_.size() - i < kLooked; i--)
    if (names_[i - 1] == text) return u32(i);
  if (names_.size() == kStepNamesMax) return 0;
  names_.emplace_back(text);
  names_bytes_ += delimited_size(text.size());
  return u32(names_.size());
}

size_t StepRequestWriter::size() const {
  return bytes_size(hello_.size()) + column_size(items_) + column_size(lengths_) + column_size(ids_) +
         (pairs_ ? column_size(first_lengths_) : 0) + (limited_ ? column_size(timeouts_) : 0) +
         (optioned_ ? column_size(options_) : 0) + names_bytes_ + (called_ ? column_size(callers_) : 0) +
         generates_bytes_ + column_size(cancels_) + fixed64_field(echo_) + kChecksumBytes;
}

u8* StepRequestWriter::write(u8* begin) const {
  WireWriter out(begin);
  out.bytes(1, hello_.data(), hello_.size());
  write_column(out, 2, items_);
  write_column(out, 3, lengths_);
  write_column(out, 4, ids_);
  if (pairs_) write_column(out, 5, first_lengths_);
  if (limited_) write_column(out, 6, timeouts_);
  if (optioned_) write_column(out, 7, options_);
  for (const std::string& name : names_) out.string(8, name);
  if (called_) write_column(out, 9, callers_);
  for (const StepGenerate& generate : generates_) {
    out.head(10, generate_size(generate));
    write_generate(out, generate);
  }
  write_column(out, 11, cancels_);
  write_fixed64(out, 12, echo_);
  return seal(begin, out.end());
}

const char* StepRequestReader::read(std::span<const u8> message) {
  has_hello_ = false;
  items_.clear(), lengths_.clear(), ids_.clear(), first_lengths_.clear(), timeouts_.clear(), callers_.clear();
  cancels_.clear(), options_.clear(), names_.clear(), generates_.clear(), begins_.clear();
  echo_ = 0;
  const std::string_view body = unseal(message);
  if (!body.data()) return "its checksum is wrong: its bytes were changed on the way";
  if (const char* why = read_fields(body)) return why;
  return check_columns();
}

const char* StepRequestReader::read_fields(std::string_view message) {
  for (WireReader in(message); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return kNoMessage;
    bool sound = false;
    switch (tag) {
      case length_tag(1):
        sound = read_hello(in, hello_);
        has_hello_ = true;
        break;
      case length_tag(2):
        sound = read_column(in, items_);
        break;
      case length_tag(3):
        sound = read_column(in, lengths_);
        break;
      case length_tag(4):
        sound = read_column(in, ids_);
        break;
      case length_tag(5):
        sound = read_column(in, first_lengths_);
        break;
      case length_tag(6):
        sound = read_column(in, timeouts_);
        break;
      case length_tag(7):
        sound = read_column(in, options_);
        break;
      case length_tag(8):
        sound = names_.size() < kStepNamesMax && read_text(in, &names_.emplace_back());
        break;
      case length_tag(9):
        sound = read_column(in, callers_);
        break;
      case length_tag(10):
        sound = generates_.size() < kStepItemsMax && read_generate(in, generates_.emplace_back());
        break;
      case length_tag(11):
        sound = read_column(in, cancels_);
        break;
      case fixed64_tag(12):
        sound = read_fixed64(in, &echo_);
        break;
      default:  // of a later protocol: hello says which
        sound = in.skip(tag, kWireDepthMax);
    }
    if (!sound) return kNoMessage;
  }
  return nullptr;
}

// Makes item() safe: every column is complete or absent, and every place is in its column.
const char* StepRequestReader::check_columns() {
  const size_t n = items_.size();
  if (n > kStepItemsMax) return "more than 1024 items";
  if (cancels_.size() > kStepItemsMax) return "more than 1024 cancels";
  std::sort(cancels_.begin(), cancels_.end());
  auto fits = [n](size_t entries) { return entries == 0 || entries == n; };
  if (lengths_.size() != n || !fits(first_lengths_.size()) || !fits(timeouts_.size()) || !fits(options_.size()) ||
      !fits(callers_.size()) || !fits(generates_.size()))
    return "columns of different lengths";
  u64 at = 0;
  begins_.reserve(n);
  for (size_t i = 0; i < n; i++) {
    begins_.push_back(u32(at));
    at += lengths_[i];
    if (at > ids_.size()) return "fewer ids than its items have";
    if (!items_[i]) return "an item without a number";
    if (!first_lengths_.empty() && first_lengths_[i] > lengths_[i]) return "a first text longer than its item";
    if (!callers_.empty() && ((callers_[i] & 0xffff) > names_.size() || callers_[i] >> 16 > names_.size()))
      return "an item with a name that is not there";
  }
  return at == ids_.size() ? nullptr : "more ids than its items have";
}

StepItem StepRequestReader::item(u32 i) const {
  const std::span<const u32> ids{ids_.data() + begins_[i], lengths_[i]};
  StepItem item{.number = items_[i],
                .ids = ids,
                .first_len = first_lengths_.empty() ? u32(ids.size()) : first_lengths_[i],
                .timeout_us = timeouts_.empty() ? 0 : timeouts_[i],
                .options = options_.empty() ? StepOptions{} : StepOptions::unpack(options_[i]),
                .generate = generates_.empty() ? nullptr : &generates_[i]};
  const u32 caller = callers_.empty() ? 0 : callers_[i];
  if (caller & 0xffff) item.tenant = names_[(caller & 0xffff) - 1];
  if (caller >> 16) item.group = names_[(caller >> 16) - 1];
  return item;
}

}  // namespace fastqps::front
