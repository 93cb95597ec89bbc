// Messages of StepService, right and damaged, sealed again so that the checksum does not stop them. What is read lies
// in the message and can be written; and a door that hears them has no slot, group, call or timer left at the end.
#include <memory>
#include <vector>

#include "protocols/protocols.h"
#include "tests/check.h"
#include "tests/edge/step_random.h"
#include "tests/fuzz/fuzz_frames.h"
#include "tests/service/generation_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

bool within(const void* data, size_t bytes, const std::vector<u8>& whole) {
  const u8* at = static_cast<const u8*>(data);
  return !bytes || (at >= whole.data() && at + bytes <= whole.data() + whole.size());
}

std::vector<u8> damaged(fuzz::Random& random, const std::vector<u8>& message) {
  std::string body(message.begin(), message.end() - kChecksumBytes);
  if (!random.one_in(4)) body = fuzz::mutated(random, std::move(body));
  std::vector<u8> out;
  out.reserve(body.size() + kChecksumBytes);  // so that it lies somewhere even if it is empty
  out.assign(body.begin(), body.end());
  const u64 sum = step_checksum(out.data(), out.size());
  out.push_back(15 << 3 | 1);
  for (u32 i = 0; i < 8; i++) out.push_back(u8(sum >> 8 * i));
  return out;
}

void check_request(const std::vector<u8>& message) {
  StepRequestReader reader;
  if (reader.read(message)) return;
  if (reader.has_hello()) CHECK(within(reader.hello().model.data(), reader.hello().model.size(), message));
  CHECK(reader.items() <= kStepItemsMax);
  StepRequestWriter again;
  for (u32 i = 0; i < reader.items(); i++) {
    const StepItem item = reader.item(i);
    CHECK(item.number && item.first_len <= item.ids.size());
    u32 sum = 0;
    for (const u32 id : item.ids) sum += id;
    CHECK(sum || !sum);  // all can be read
    for (const std::string_view name : {item.tenant, item.group, item.trace_state})
      CHECK(within(name.data(), name.size(), message));
    if (item.generate)
      CHECK(item.generate->stop_ids.count <= IdList::kMax && item.generate->suppress_ids.count <= IdList::kMax);
    again.add(item);
  }
  StepRequestReader second;
  const std::vector<u8> bytes = written(again);
  CHECK(!second.read(bytes));
  CHECK_EQ(second.items(), reader.items());
}

void check_response(const std::vector<u8>& message) {
  StepResponseReader reader;
  if (reader.read(message)) return;
  if (reader.ready()) CHECK(within(reader.ready()->server.data(), reader.ready()->server.size(), message));
  RandomResponse again{.has_ready = reader.ready() != nullptr, .has_load = reader.load() != nullptr};
  if (reader.ready()) again.ready = *reader.ready();
  if (reader.load()) again.load = *reader.load();
  for (StepRow row; reader.next_row(row);) {
    if (!row.item) continue;  // it could not be read
    CHECK(within(row.values[0].data(), row.values[0].size(), message));
    CHECK(within(row.message.data(), row.message.size(), message));
    again.rows.push_back(row);
  }
  StepResponseReader second;
  const std::vector<u8> bytes = written(again);
  CHECK(!second.read(bytes));
}

std::string random_request(fuzz::Random& random) {
  StepRequestWriter writer;
  if (random.one_in(2)) {
    writer.hello({.protocol = random.one_in(8) ? kStepProtocol + 1 : kStepProtocol,
                  .model = random.one_in(2)   ? "generator"
                           : random.one_in(8) ? "nobody"
                                              : "encoder",
                  .version = random.one_in(8) ? "0123456789ab" : ""});
    const std::vector<u8> bytes = written(writer);
    return {bytes.begin(), bytes.end()};
  }
  RandomItems made = random_items(random);
  Sampling greedy{.max_tokens = 3};
  for (StepItem& item : made.items) {
    // Half of the items could be served.
    if (random.one_in(2)) {
      for (u32& id : made.ids[size_t(&item - made.items.data())]) id = u32(random.below(kVocab));
      item.options = {}, item.generate = item.generate ? &greedy : nullptr;
      item.number = 1 + u32(random.below(20));
    }
    writer.add(item);
  }
  for (u64 n = random.below(3); n; n--) writer.cancel(1 + u32(random.below(20)));
  if (random.one_in(4)) writer.echo(random.next());
  const std::vector<u8> bytes = damaged(random, written(writer));
  return {bytes.begin(), bytes.end()};
}

// A door with the service, and its dispatcher.
struct Door {
  GenerationWorld world{Generating::usual()};
  PredictService service{world.segment, &world.fds, {}};
  DoorSettings settings;
  Methods methods{service, settings, "0.1"};
  Counters counters;
  std::unique_ptr<FrontDoor> door;
  TestDispatcher dispatcher{world.segment, &world.fds};

  Door() {
    service.setups()[kGeneratorRoute].detokenizer = test_detokenizer();
    methods.add_all();
    door = std::unique_ptr<FrontDoor>(new FrontDoor(service, without_sleep({}), {}, counters));
    door->attach();
  }
  ~Door() {
    CHECK_EQ(door->calls.pool.used(), 0u);
    CHECK_EQ(world.segment.door(0).slots_used.load(), 0u);
    CHECK_EQ(service.generations(), 0u);
  }
  void serve(fuzz::Random& random) {
    if (random.one_in(2)) dispatcher.claim();
    dispatcher.obey();
    while (!dispatcher.running.empty()) dispatcher.finish('x', Finish::kLength);
  }
};

// One call with a sound hello, and these messages.
std::string call_of(const std::vector<std::string>& messages) {
  StepRequestWriter writer;
  writer.hello({.model = "generator", .version = ""});
  const std::vector<u8> hello = written(writer);
  std::string body = framed(std::string(hello.begin(), hello.end()), 0);
  for (const std::string& message : messages)
    if (message.find("generator") == message.npos) body += framed(message, 0);
  const std::string head = fuzz::header_block({{":method", "POST"},
                                               {":scheme", "http"},
                                               {":path", kStepRunPath},
                                               {":authority", "test"},
                                               {"content-type", "application/grpc"},
                                               {"te", "trailers"}});
  constexpr u8 kEndHeaders = 4;
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + fuzz::frame(fuzz::kSettings, 0, 0, "") +
         fuzz::frame(fuzz::kHeaders, kEndHeaders, 1, head) + fuzz::frame(fuzz::kData, 0, 1, body.substr(0, 16384));
}

constexpr u64 kInputsOfDoor = 2000;

void talk(fuzz::Random& random) {
  static std::unique_ptr<Door> door;
  static u64 inputs = 0;
  if (!door) door = std::make_unique<Door>();
  static const std::vector<std::string> kPaths = {kStepRunPath};
  std::vector<std::string> messages;
  for (u32 i = 0; i < 8; i++) messages.push_back(random_request(random));
  const bool polite = random.one_in(2);
  const std::string bytes = polite ? call_of(messages) : fuzz::Conversation(random, kPaths, messages).bytes();
  fuzz::say(random, *door->door, bytes, [&] { door->serve(random); });
  if (++inputs % kInputsOfDoor) return;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (door->door->net.connections.open() > 1 || door->world.segment.door(0).slots_used.load()) {
    CHECK(std::chrono::steady_clock::now() < end);
    door->serve(random);
    door->door->turn();
  }
  door.reset();
}

void run(fuzz::Random& random) {
  const RandomItems made = random_items(random);
  StepRequestWriter writer;
  if (random.one_in(4)) writer.hello({.model = "m", .version = "0123456789ab"});
  for (const StepItem& item : made.items) writer.add(item);
  for (u64 n = random.below(3); n; n--) writer.cancel(u32(random.next()));
  if (random.one_in(4)) writer.echo(random.next());
  check_request(damaged(random, written(writer)));
  check_response(damaged(random, written(random_response(random))));
  talk(random);
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run_all(argc, argv, run); }
