// Connections that say anything, to a door that serves an encoder and a generator: predictions, batches, streams and
// generations, their texts tokenized somehow. No slot, group, call or timer is left of any of them.
#include <memory>

#include "tests/fuzz/fuzz_frames.h"
#include "tests/service/generation_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

const std::vector<std::string> kPaths = {
    "/fastqps.v1.PredictService/Predict", "/fastqps.v1.PredictService/PredictBatch",
    "/fastqps.v1.PredictService/PredictStream", "/fastqps.v1.PredictService/Generate"};
constexpr u64 kInputsOfDoor = 2000;

std::vector<std::string> messages() {
  std::vector<std::string> out = {
      Ask{.text = "a text", .model = "encoder"}.bytes(),
      Ask{.text = std::string(5000, 'b'), .truncate = true, .model = "encoder"}.bytes(),
      Ask{.ids = {5, 6, 7}, .model = "encoder", .request_id = 7, .dtype = 1, .dimensions = 4}.bytes(),
      Ask{.ids = {5, 6, 7}, .timeout_us = 100, .max_tokens = 3}.bytes(),
      Ask{.ids = {5, 6},
          .seed = 9,
          .max_tokens = 3,
          .top_k = 5,
          .temperature = 1,
          .logprobs = true,
          .stop = {"x", "yy"},
          .stop_ids = {3},
          .repetition_penalty = 1.5f,
          .min_tokens = 2,
          .suppress_ids = {4, 5}}
          .bytes()};
  for (size_t i = 0; i < 5; i++) {
    u8 head[16];
    WireWriter writer(head);
    writer.head(1, out[i].size());
    const std::string item = std::string(reinterpret_cast<char*>(head), size_t(writer.end() - head)) + out[i];
    out.push_back(item + item);
  }
  return out;
}

// Another thread's work and a dispatcher's.
void serve(fuzz::Random& random, Generating& serving) {
  for (const TextLane lane : {TextLane::kUsual, TextLane::kLong})
    for (TokenizeJob& job : serving.service.tokenize_queue().pop(8, 0, lane)) {
      if (lane == TextLane::kUsual && random.one_in(4)) {
        serving.service.tokenize_queue().defer(std::move(job));
        continue;
      }
      TokenizeResult result{job.slot,
                            std::vector<u32>(random.below(kMaxInput + 2), u32(random.below(kVocab + 1))),
                            u32(random.below(40)),
                            u32(random.below(40)),
                            random.one_in(8) ? "refused" : "",
                            random.one_in(16)};
      serving.service.tokenize_queue().done({std::move(result)});
    }
  if (random.one_in(2)) serving.dispatcher->claim();
  serving.dispatcher->obey();
  while (!serving.dispatcher->running.empty()) serving.dispatcher->finish('x', Finish::kLength);
}

void run(fuzz::Random& random) {
  static std::unique_ptr<Generating> serving;
  static const std::vector<std::string> kMessages = messages();
  static u64 inputs = 0;
  if (!serving) {
    serving = std::make_unique<Generating>();
    serving->service.setups()[kEncoderRoute].external_tokenizer = true;
  }
  say(random, serving->door, fuzz::Conversation(random, kPaths, kMessages).bytes(), [&] { serve(random, *serving); });
  if (++inputs % kInputsOfDoor) return;
  const auto end = std::chrono::steady_clock::now() + fastqps::test::kPatience;
  while (serving->door.net.connections.open() > 1 || serving->world.segment.door(0).slots_used.load()) {
    CHECK(std::chrono::steady_clock::now() < end);
    serve(random, *serving);
    serving->door.turn();
  }
  serving.reset();
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run_all(argc, argv, run); }
