// The messages between an edge and a server: what is written is read, and every damaged byte is found.
#include <algorithm>
#include <cstring>
#include <string>

#include "tests/check.h"
#include "tests/edge/step_random.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

void check_same(const StepItem& a, const StepItem& b) {
  CHECK_EQ(a.number, b.number);
  CHECK(std::vector<u32>(a.ids.begin(), a.ids.end()) == std::vector<u32>(b.ids.begin(), b.ids.end()));
  CHECK_EQ(a.first_len, b.first_len);
  CHECK_EQ(a.timeout_us, b.timeout_us);
  CHECK_EQ(a.options.pack(), b.options.pack());
  CHECK_EQ(a.tenant, b.tenant);
  CHECK_EQ(a.group, b.group);
  CHECK_EQ(!a.generate, !b.generate);
  if (a.generate) CHECK(*a.generate == *b.generate);
  CHECK_EQ(!a.span, !b.span);
  if (a.span) CHECK(!std::memcmp(a.span, b.span, sizeof *a.span));
  CHECK_EQ(a.trace_state, b.trace_state);
  CHECK(a.attached == b.attached);
}

}  // namespace

TEST(requests_are_read_as_they_were_written) {
  StepRequestWriter writer;
  StepRequestReader reader;
  for (u64 seed = 0; seed < 500; seed++) {
    fuzz::Random random(seed);
    const RandomItems made = random_items(random);
    std::vector<u32> cancels(random.below(4));
    const u64 echo = random.one_in(2) ? random.next() : 0;
    const bool hello = random.one_in(4);
    if (hello) writer.hello({.protocol = 7, .model = "m", .version = "0123456789ab"});
    for (const StepItem& item : made.items) writer.add(item);
    for (u32& each : cancels) writer.cancel(each = u32(random.next()));
    writer.echo(echo);
    CHECK_EQ(writer.items(), made.items.size());
    const std::vector<u8> bytes = written(writer);
    writer.clear();
    CHECK(writer.empty() && writer.size() == kChecksumBytes);
    const char* why = reader.read(bytes);
    CHECK_EQ(std::string(why ? why : ""), "");
    CHECK_EQ(reader.items(), made.items.size());
    for (u32 i = 0; i < reader.items(); i++) check_same(reader.item(i), made.items[i]);
    std::sort(cancels.begin(), cancels.end());
    CHECK(std::vector<u32>(reader.cancels().begin(), reader.cancels().end()) == cancels);
    CHECK_EQ(reader.echo(), echo);
    CHECK_EQ(reader.has_hello(), hello);
    if (hello) CHECK(reader.hello().protocol == 7 && reader.hello().version == "0123456789ab");
  }
}

TEST(responses_are_read_as_they_were_written) {
  StepResponseReader reader;
  for (u64 seed = 0; seed < 500; seed++) {
    fuzz::Random random(seed);
    const RandomResponse made = random_response(random);
    const std::vector<u8> message = written(made);
    CHECK(!reader.read(message));
    CHECK_EQ(reader.ready() != nullptr, made.has_ready);
    CHECK_EQ(reader.load() != nullptr, made.has_load);
    if (made.has_ready) CHECK(reader.ready()->protocol == made.ready.protocol && reader.ready()->server == "0.1");
    if (made.has_load) CHECK(reader.load()->echo == made.load.echo && reader.load()->draining == made.load.draining);
    StepRow got;
    for (size_t i = 0; i < made.rows.size(); i++) {
      const StepRow& r = made.rows[i];
      CHECK(reader.next_row(got));
      CHECK_EQ(got.item, r.item);
      CHECK_EQ(got.status, r.status);
      CHECK_EQ(got.message, r.message);
      CHECK_EQ(std::string(got.values[0].begin(), got.values[0].end()), made.bytes[i]);
      CHECK(got.retry_after_ms == r.retry_after_ms && got.kind == r.kind && got.dtype == r.dtype);
      CHECK(got.n_values == r.n_values && got.finish == r.finish && got.batch_items == r.batch_items);
      CHECK(got.queue_us == r.queue_us && got.device_us == r.device_us);
    }
    CHECK(!reader.next_row(got));
  }
}

// Every bit of every byte, every cut, and a byte too many.
template <class Reader>
static void check_damage(std::vector<u8> message) {
  Reader reader;
  CHECK(!reader.read(message));
  for (size_t at = 0; at < message.size(); at++)
    for (u32 bit = 0; bit < 8; bit++) {
      message[at] ^= u8(1 << bit);
      CHECK(reader.read(message));
      message[at] ^= u8(1 << bit);
    }
  for (size_t n = 0; n < message.size(); n++) CHECK(reader.read({message.data(), n}));
  message.push_back(0);
  CHECK(reader.read(message));
}

TEST(every_damaged_byte_is_found) {
  for (u64 seed = 0; seed < 20; seed++) {
    fuzz::Random random(seed);
    const RandomItems made = random_items(random, 4);
    StepRequestWriter writer;
    for (const StepItem& item : made.items) writer.add(item);
    check_damage<StepRequestReader>(written(writer));
    check_damage<StepResponseReader>(written(random_response(random, 2)));
  }
}

// Two words of a message that have changed places, as a faulty buffer would have it.
TEST(swapped_words_are_found) {
  fuzz::Random random(3);
  std::vector<u8> message(200);
  for (u8& each : message) each = u8(random.next());
  const u64 sum = step_checksum(message.data(), message.size());
  for (size_t a = 0; a + 8 <= message.size(); a += 8)
    for (size_t b = a + 8; b + 8 <= message.size(); b += 8) {
      std::vector<u8> other = message;
      std::swap_ranges(other.begin() + i64(a), other.begin() + i64(a) + 8, other.begin() + i64(b));
      CHECK(step_checksum(other.data(), other.size()) != sum);
    }
  for (size_t n = 0; n < 64; n++) CHECK(step_checksum(message.data(), n) != step_checksum(message.data(), n + 1));
}

// Spans of items that are not there, that change places, and that are cut off; and states without a span.
TEST(spans_belong_to_items) {
  constexpr u32 kId = 5;
  const auto why = [&](std::vector<u64> words, u32 states = 0) {
    StepRequestWriter writer;
    for (u32 i = 0; i < 3; i++) writer.add({.number = i + 1, .ids = {&kId, 1}, .first_len = 1, .options = {}});
    std::vector<u8> bytes = written(writer);
    bytes.resize(bytes.size() - kChecksumBytes);
    bytes.push_back(13 << 3 | 2), bytes.push_back(u8(8 * words.size()));
    const u8* column = reinterpret_cast<const u8*>(words.data());
    bytes.insert(bytes.end(), column, column + 8 * words.size());
    for (; states; states--) bytes.insert(bytes.end(), {14 << 3 | 2, 3, 'a', '=', '1'});
    bytes.resize(bytes.size() + kChecksumBytes);
    seal_step_message(bytes.data(), bytes.data() + bytes.size() - kChecksumBytes);
    StepRequestReader reader;
    const char* found = reader.read(bytes);
    return std::string(found ? found : "");
  };
  CHECK_EQ(why({0, 1, 2, 3, 2, 4, 5, 6}), "");
  const std::vector<u64> astray[] = {{3, 1, 2, 3}, {1, 1, 2, 3, 0, 4, 5, 6}, {1, 1, 2, 3, 1, 4, 5, 6}};
  for (const auto& words : astray) CHECK_EQ(why(words), "a span of an item that is not there");
  CHECK_EQ(why({0, 1, 2}), "a span that is cut off");
  CHECK_EQ(why({1, 1, 2, 3}, 1), "");
  CHECK_EQ(why({1, 1, 2, 3}, 2), "columns of different lengths");
  CHECK_EQ(why({}, 1), "columns of different lengths");
}

// Many items have the same part, which is written once; and parts of items and of kinds that are not there.
TEST(attachments_belong_to_items) {
  constexpr u32 kId = 5;
  const std::string schema(4000, 'x');
  const auto message = [&](bool attached) {
    StepRequestWriter writer;
    for (u32 i = 0; i < 3; i++)
      writer.add({.number = i + 1,
                  .ids = {&kId, 1},
                  .first_len = 1,
                  .options = {},
                  .attached = {std::string_view(attached ? schema : ""), ""}});
    CHECK_EQ(writer.part_bytes(), attached ? schema.size() : 0);
    return written(writer);
  };
  CHECK(message(true).size() < schema.size() + 300);
  const auto why = [&](std::vector<u32> words, u32 parts) {
    std::vector<u8> bytes = message(false);
    bytes.resize(bytes.size() - kChecksumBytes);
    for (; parts; parts--) bytes.insert(bytes.end(), {0x82, 1, 1, 'a'});
    bytes.insert(bytes.end(), {0x8a, 1, u8(4 * words.size())});
    const u8* column = reinterpret_cast<const u8*>(words.data());
    bytes.insert(bytes.end(), column, column + 4 * words.size());
    bytes.resize(bytes.size() + kChecksumBytes);
    seal_step_message(bytes.data(), bytes.data() + bytes.size() - kChecksumBytes);
    StepRequestReader reader;
    const char* found = reader.read(bytes);
    return std::string(found ? found : "");
  };
  CHECK_EQ(why({0, 0, 0, 0, 1, 1, 2, 0, 0}, 2), "");
  const std::vector<u32> astray[] = {{3, 0, 0}, {0, kAttachmentKinds, 0}, {1, 0, 0, 0, 0, 0}, {1, 1, 0, 1, 1, 0}};
  for (const auto& words : astray) CHECK_EQ(why(words, 2), "an attachment of an item that is not there");
  CHECK_EQ(why({0, 0, 2}, 2), "an attachment that is not there");
  CHECK_EQ(why({0, 0}, 2), "an attachment that is cut off");
}

// As many names and items as a message has room for, and an item too many.
TEST(limits) {
  std::vector<std::string> names;
  for (u32 i = 0; i < kStepNamesMax + 5; i++) names.push_back("tenant " + std::to_string(i));
  StepRequestWriter writer;
  const u32 id = 5;
  for (u32 i = 0; i < kStepItemsMax; i++)
    writer.add({.number = i + 1,
                .ids = {&id, 1},
                .first_len = 1,
                .options = {},
                .tenant = names[2 * i],
                .group = names[2 * i + 1]});
  StepRequestReader reader;
  const std::vector<u8> bytes = written(writer);
  CHECK(!reader.read(bytes));
  for (u32 i = 0; i < kStepItemsMax; i++)
    CHECK(reader.item(i).tenant == names[2 * i] && reader.item(i).group == names[2 * i + 1]);
  writer.add({.number = 9999, .ids = {&id, 1}, .first_len = 1, .options = {}});
  const std::vector<u8> more = written(writer);
  CHECK(reader.read(more));
}
