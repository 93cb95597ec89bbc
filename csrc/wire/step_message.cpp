#include "wire/step_message.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "text/unicode/utf8.h"

namespace fastqps::front {
namespace {

constexpr u32 kChecksumTag = fixed64_tag(15);
constexpr const char* kNoMessage = "not a message of this protocol";

u64 load64(const u8* at) {
  u64 word;
  std::memcpy(&word, at, 8);
  return word;
}

template <class T>
size_t column_size(const std::vector<T>& column) {
  return bytes_size(column.size() * sizeof(T));
}
template <class T>
void write_column(WireWriter& out, u32 field, const std::vector<T>& column) {
  out.bytes(field, column.data(), column.size() * sizeof(T));
}
template <class T>
bool read_column(WireReader& in, std::vector<T>& column) {
  std::string_view packed;
  if (!in.bytes(&packed) || packed.size() % sizeof(T) || !column.empty()) return false;
  column.resize(packed.size() / sizeof(T));
  if (!packed.empty()) std::memcpy(column.data(), packed.data(), packed.size());
  return true;
}

bool take_u32(WireReader& in, u32* out) {
  u64 value;
  if (!in.varint(&value) || value > ~u32(0)) return false;
  *out = u32(value);
  return true;
}
bool read_fixed32(WireReader& in, u32* out) {
  float bits;
  if (!in.fixed32(&bits)) return false;
  *out = std::bit_cast<u32>(bits);
  return true;
}
bool read_fixed64(WireReader& in, u64* out) {
  double bits;
  if (!in.fixed64(&bits)) return false;
  *out = std::bit_cast<u64>(bits);
  return true;
}
bool read_text(WireReader& in, std::string_view* out) { return in.bytes(out) && text::valid_utf8(*out); }

// Calls field(tag) for each field of a submessage. field() returns whether it is sound; false for an unknown tag is
// damage, because both sides speak one protocol.
template <class Field>
bool read_part(WireReader& in, Field field) {
  std::string_view part;
  if (!in.bytes(&part)) return false;
  for (WireReader of(part); !of.done();) {
    u32 tag;
    if (!of.tag(&tag) || !field(of, tag)) return false;
  }
  return true;
}

size_t fixed32_field(u32 value) { return value ? 5 : 0; }
size_t fixed64_field(u64 value) { return value ? 9 : 0; }
void write_fixed32(WireWriter& out, u32 field, u32 value) { out.float32(field, std::bit_cast<float>(value)); }
void write_fixed64(WireWriter& out, u32 field, u64 value) { out.float64(field, std::bit_cast<double>(value)); }

// Writes the last field: the sum of what lies before it.
u8* seal(const u8* begin, u8* end) {
  const u64 sum = step_checksum(begin, size_t(end - begin));
  *end++ = u8(kChecksumTag);
  std::memcpy(end, &sum, 8);
  return end + 8;
}
// The message without its last field; data() is nullptr if the sum is wrong.
std::string_view unseal(std::span<const u8> message) {
  if (message.size() < kChecksumBytes) return {};
  const size_t bytes = message.size() - kChecksumBytes;
  const u8* end = message.data() + bytes;
  if (*end != u8(kChecksumTag) || load64(end + 1) != step_checksum(message.data(), bytes)) return {};
  return {reinterpret_cast<const char*>(message.data()), bytes};
}

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
  return read_part(in, [&g](WireReader& of, u32 tag) {
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
  return read_part(in, [&hello](WireReader& of, u32 tag) {
    if (tag == varint_tag(1)) return take_u32(of, &hello.protocol);
    if (tag == length_tag(2)) return read_text(of, &hello.model);
    if (tag == length_tag(3)) return read_text(of, &hello.version);
    return of.skip(tag, kWireDepthMax);
  });
}

}  // namespace

namespace {

// Products of 32-bit halves, because processors have those for many words at once (the idea is xxHash's, XXH3). Each
// word is also added to its neighbour's sum, so that no factor of zero hides it, and is mixed with its place first, so
// that words cannot change places.
constexpr u64 kPlaces[8] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
                            0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3, 0x589965cc75374cc3};
constexpr u64 kNextPlace = 0x9fb21c651e98df25;

[[maybe_unused]] void sum_by_word(const u8* data, size_t stripes, u64 (&sums)[8]) {
  u64 shift = 0;
  for (; stripes; stripes--, data += 64, shift += kNextPlace)
    for (size_t i = 0; i < 8; i++) {
      const u64 word = load64(data + 8 * i), mixed = word ^ (kPlaces[i] + shift);
      sums[i] += (mixed & 0xffffffff) * (mixed >> 32);
      sums[i ^ 1] += word;
    }
}

#if defined(__x86_64__)
// The same, four words at once.
__attribute__((target("avx2"))) void sum_by_four(const u8* data, size_t stripes, u64 (&sums)[8]) {
  const auto* words_at = reinterpret_cast<const __m256i*>(data);
  const auto* places_at = reinterpret_cast<const __m256i*>(kPlaces);
  auto* sums_at = reinterpret_cast<__m256i*>(sums);
  __m256i sum[2] = {_mm256_loadu_si256(sums_at), _mm256_loadu_si256(sums_at + 1)};
  __m256i place[2] = {_mm256_loadu_si256(places_at), _mm256_loadu_si256(places_at + 1)};
  const __m256i next = _mm256_set1_epi64x(i64(kNextPlace));
  for (; stripes; stripes--, words_at += 2)
    for (int half = 0; half < 2; half++) {
      const __m256i words = _mm256_loadu_si256(words_at + half), mixed = _mm256_xor_si256(words, place[half]);
      const __m256i product = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
      const __m256i neighbours = _mm256_shuffle_epi32(words, 0x4e);
      sum[half] = _mm256_add_epi64(sum[half], _mm256_add_epi64(product, neighbours));
      place[half] = _mm256_add_epi64(place[half], next);
    }
  _mm256_storeu_si256(sums_at, sum[0]);
  _mm256_storeu_si256(sums_at + 1, sum[1]);
}
#endif

void sum_stripes(const u8* data, size_t stripes, u64 (&sums)[8]) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) return sum_by_four(data, stripes, sums);
#endif
  sum_by_word(data, stripes, sums);
}

}  // namespace

u64 step_checksum(const u8* data, size_t bytes) {
  constexpr u64 kFactor = 0x9e3779b97f4a7c15;
  u64 sums[8] = {bytes, 1, 2, 3, 4, 5, 6, 7};
  sum_stripes(data, bytes / 64, sums);
  u8 rest[64] = {};
  std::memcpy(rest, data + bytes / 64 * 64, bytes % 64);
  for (size_t i = 0; i < 8; i++) sums[i] = (sums[i] ^ load64(rest + 8 * i)) * kFactor;
  u64 sum = 0;
  for (const u64 each : sums) sum = std::rotl((sum ^ each ^ each >> 29) * kFactor, 31);
  return sum ^ sum >> 32;
}

// ---- StepRequest

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

// ---- StepResponse

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
  return read_part(in, [&r](WireReader& of, u32 tag) {
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
  return read_part(in, [&l](WireReader& of, u32 tag) {
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
