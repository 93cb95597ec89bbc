// Generations from the client's message to its chunks, with a dispatcher that makes tokens as each case says.
#include <cstdlib>
#include <limits>
#include <new>

#include "tests/in_time.h"
#include "tests/service/generation_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

static thread_local u64 allocations = 0;  // those of the thread that counts
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations++;
  void* p = std::malloc(bytes);
  if (!p) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace {

using Ids = std::vector<u32>;
const std::string kOk = "0", kInvalid = "3", kDeadline = "4", kExhausted = "8", kInternal = "13", kUnavailable = "14";

std::string text_of(const std::vector<Chunk>& chunks) {
  std::string text;
  for (const Chunk& chunk : chunks) text += chunk.text;
  return text;
}
Ids ids_of(const std::vector<Chunk>& chunks) {
  Ids ids;
  for (const Chunk& chunk : chunks) ids.insert(ids.end(), chunk.ids.begin(), chunk.ids.end());
  return ids;
}
// A stream that has ended well: what every last chunk says.
void check_end(Generating& test, i32 stream, FinishReason finish, u64 output_tokens) {
  CHECK_EQ(test.answer(stream).code(), kOk);
  CHECK(test.answer(stream).closed);
  const auto chunks = test.chunks(stream);
  CHECK(!chunks.empty());
  for (size_t i = 0; i < chunks.size(); i++) {
    CHECK_EQ(chunks[i].finish, i + 1 < chunks.size() ? u64(0) : u64(finish));
    CHECK_EQ(chunks[i].has_usage, i + 1 == chunks.size());
  }
  CHECK_EQ(chunks.back().output_tokens, output_tokens);
  CHECK_EQ(ids_of(chunks).size(), output_tokens);
}

}  // namespace

TEST(predict_gives_the_whole) {
  Generating test;
  const i32 stream = test.start("Predict", {.ids = {5, 6, 7}, .request_id = 9});
  CHECK_EQ(test.dispatcher->slot().flags & kProgress, 0);
  test.make({'a', 'b'});
  CHECK(!test.answer(stream).closed);
  test.finish(kEos, Finish::kStop);
  const Chunk found = test.prediction(stream);
  CHECK_EQ(test.answer(stream).code(), kOk);
  CHECK_EQ(found.request_id, u64(9));
  CHECK_EQ(found.text, std::string("ab"));
  CHECK(found.ids == Ids({'a', 'b', kEos}));
  CHECK(found.logprobs.empty());
  CHECK_EQ(found.finish, u64(FinishReason::kStop));
  CHECK_EQ(found.input_tokens, u64(3));
  CHECK_EQ(found.output_tokens, u64(3));
  CHECK(!found.has_timings);
  CHECK_EQ(test.counted(kPredict, StatusCode::kOk), u64(1));
  CHECK_EQ(test.items(StatusCode::kOk), u64(1));
}

TEST(predict_gives_logprobs_and_timings_when_asked) {
  Generating test;
  const i32 stream = test.start("Predict", {.ids = {5}, .logprobs = true, .timings = true});
  CHECK(test.dispatcher->slot().flags & kLogprobs);
  test.make({'a'});
  test.finish('b', Finish::kLength);
  const Chunk found = test.prediction(stream);
  CHECK_EQ(found.finish, u64(FinishReason::kLength));
  CHECK(found.logprobs == std::vector<float>({-0.5f, -1.5f}));
  CHECK(found.has_timings);
}

TEST(predict_and_generate_give_likeliest_tokens_when_asked) {
  Generating test;
  const i32 whole = test.start("Predict", {.ids = {5}, .max_tokens = 4, .top_logprobs = 2});
  CHECK(test.dispatcher->slot().flags & kLogprobs);
  CHECK_EQ(test.dispatcher->slot().sampling.top_logprobs, 2u);
  test.make({'a'});
  test.finish('b', Finish::kLength);
  const Chunk found = test.prediction(whole);
  CHECK(found.logprobs == std::vector<float>({-0.5f, -1.5f}));
  CHECK(found.top_ids == Ids({'a', 'a' + 1, 'b', 'b' + 1}));
  CHECK(found.top_logprobs == std::vector<float>({-0.5f, -1.5f, -1.5f, -2.5f}));

  const i32 stream = test.start("Generate", {.ids = {5}, .max_tokens = 4, .top_logprobs = 3});
  test.make({'c', 'd'});
  test.finish('e', Finish::kLength);
  const std::vector<Chunk> chunks = test.chunks(stream);
  CHECK_EQ(chunks.size(), size_t(3));
  for (u32 i = 0; i < 3; i++) {
    CHECK(chunks[i].top_ids == Ids({'c' + i, 'd' + i, 'e' + i}));
    CHECK_EQ(chunks[i].top_logprobs[0], -float(i) - 0.5f);
  }
}

// An answer with likeliest tokens that the slot has no room for takes a large answer, as long as there is one.
TEST(likeliest_tokens_take_large_answers) {
  Sizes sizes = Generating::usual();
  sizes.large_answers = 1, sizes.large_answer_bytes = (TokenAnswer::bytes(kMaxOutput, 7) + 63) / 64 * 64;
  Generating test(sizes);
  const Ask ask{.ids = {5}, .top_logprobs = 7};
  const i32 first = test.start("Predict", ask), second = test.send("Predict", ask);
  CHECK_EQ(test.answer(second).code(), "8");
  CHECK(test.answer(second).fields["grpc-message"].find("large answers are in use") != std::string::npos);
  const i32 small = test.start("Predict", {.ids = {5}, .max_tokens = kMaxOutput / 8, .top_logprobs = 7});
  test.finish('c', Finish::kLength, 1);
  CHECK_EQ(test.prediction(small).top_ids.size(), size_t(7));
  for (u32 i = 1; i < kMaxOutput; i++) test.make({'a'});
  test.finish('b', Finish::kLength);
  const Chunk found = test.prediction(first);
  CHECK_EQ(found.top_ids.size(), size_t(7 * kMaxOutput));
  CHECK(found.top_ids[7 * kMaxOutput - 1] == 'b' + 6 && found.top_logprobs[0] == -0.5f);

  const i32 more = test.send("Predict", {.ids = {5}, .top_logprobs = 8});
  CHECK_EQ(test.answer(more).code(), "3");
  CHECK(test.answer(more).fields["grpc-message"].find("top_logprobs: 8, at most 7 for 24 tokens") != std::string::npos);
}

// It may have them when others are answered, if there are as many at all.
TEST(a_call_that_can_never_have_its_large_answers_is_invalid) {
  Sizes sizes = Generating::usual();
  sizes.large_answers = 2, sizes.large_answer_bytes = (TokenAnswer::bytes(kMaxOutput, 7) + 63) / 64 * 64;
  Generating test(sizes);
  const i32 three = test.send("Predict", {.ids = {5}, .top_logprobs = 7, .n = 3});
  CHECK_EQ(test.answer(three).code(), "3");
  CHECK(test.answer(three).fields["grpc-message"].find("more than the 2 places") != std::string::npos);

  Generating busy(sizes);
  busy.start("Predict", {.ids = {5}, .top_logprobs = 7});
  const i32 two = busy.send("Predict", {.ids = {5}, .top_logprobs = 7, .n = 2});
  CHECK_EQ(busy.answer(two).code(), "8");
}

// The tokens of the prompt stand in front of the answer's, and come with its first part.
TEST(prompts_have_log_probabilities_when_asked) {
  Generating test;
  const Ask ask{.ids = {5, 6, 7}, .max_tokens = 2, .top_logprobs = 1, .prompt_logprobs = 2};
  const auto check_prompt = [](const Chunk& chunk) {
    CHECK_EQ(chunk.prompt.size(), size_t(1));
    CHECK(chunk.prompt[0].ids == Ids({5, 6, 7}));
    CHECK(chunk.prompt[0].logprobs == std::vector<float>({-0.5f, -1.5f}));
    CHECK(chunk.prompt[0].top_ids == Ids({6, 7, 7, 8}));
    CHECK(chunk.prompt[0].top_logprobs == std::vector<float>({-0.5f, -1.5f, -1.5f, -2.5f}));
  };
  const i32 whole = test.start("Predict", ask);
  CHECK(test.dispatcher->slot().flags & kPromptLogprobs && test.dispatcher->slot().flags & kLogprobs);
  CHECK_EQ(test.dispatcher->slot().sampling.top_logprobs, 2u);
  test.make({6, 7, 'a'});
  test.finish('b', Finish::kLength);
  const Chunk found = test.prediction(whole);
  check_prompt(found);
  CHECK(found.ids == Ids({'a', 'b'}) && found.text == "ab" && found.output_tokens == 2 && found.input_tokens == 3);
  CHECK(found.logprobs == std::vector<float>({-2.5f, -3.5f}));
  CHECK(found.top_ids == Ids({'a', 'b'}));

  const i32 stream = test.start("Generate", ask);
  test.make({6, 7});
  CHECK(test.chunks(stream).empty());
  test.make({'a'});
  test.finish('b', Finish::kLength);
  check_end(test, stream, FinishReason::kLength, 2);
  const std::vector<Chunk> chunks = test.chunks(stream);
  CHECK_EQ(chunks.size(), size_t(2));
  check_prompt(chunks[0]);
  CHECK(chunks[1].prompt.empty() && chunks[1].ids == Ids({'b'}));

  // A stop string looks at the answer alone.
  const i32 stopped = test.start("Predict", {.ids = {5, 'x'}, .max_tokens = 9, .stop = {"x"}, .prompt_logprobs = 0});
  test.make({'x', 'a', 'x'});
  const Chunk cut = test.prediction(stopped);
  CHECK(cut.text == "a" && cut.ids == Ids({'a', 'x'}) && cut.logprobs.empty());
  CHECK(cut.prompt[0].logprobs == std::vector<float>({-0.5f}) && cut.prompt[0].top_ids.empty());
}

TEST(a_prompt_is_scored_alone) {
  Generating test;
  for (const char* method : {"Predict", "Generate"})
    for (const Ids& ids : {Ids{5, 6}, Ids{5}}) {
      const i32 stream = test.start(method, {.ids = ids, .prompt_logprobs = 0, .no_tokens = true});
      CHECK_EQ(test.dispatcher->slot().sampling.max_tokens, 1u);
      if (ids.size() > 1) test.make({6});
      test.finish('a', Finish::kStop);
      const Chunk found = method[0] == 'P' ? test.prediction(stream) : test.chunks(stream).at(0);
      CHECK(found.ids.empty() && found.text.empty() && found.prompt.size() == 1 && found.prompt[0].ids == ids);
      CHECK_EQ(found.finish, u64(FinishReason::kLength));
      CHECK(found.has_usage && found.output_tokens == 0 && found.input_tokens == ids.size());
    }
  const i32 refused = test.send("Predict", {.ids = {5}, .no_tokens = true});
  CHECK_EQ(test.answer(refused).code(), kInvalid);
  Sizes small = Generating::usual();
  small.answer_bytes = TokenAnswer::bytes(kMaxOutput, 0);
  Generating narrow(small);
  const i32 large = narrow.send("Predict", {.ids = Ids(30, 5), .prompt_logprobs = 0});
  CHECK_EQ(narrow.answer(large).code(), kInvalid);
  CHECK(narrow.answer(large).fields["grpc-message"].find("prompt_logprobs: 29 of the prompt's and 24 more") !=
        std::string::npos);
}

// The best candidate may be another than the one whose prompt is scored.
TEST(the_first_choice_has_the_prompt) {
  const float low[] = {-5}, high[] = {-1}, scored[] = {-3};
  const u32 ids[] = {1, 2};
  ResponseView candidates[3];
  for (ResponseView& each : candidates) each.generation.logprobs = low;
  candidates[2].generation.logprobs = high;
  candidates[0].generation.prompt = {ids, scored};
  std::vector<GenerationView> out;
  choose({2, 3, true}, candidates, out);
  CHECK(out.size() == 2 && out[0].logprobs[0] == -1.0f);
  CHECK(out[0].prompt.logprobs.size() == 1 && out[1].prompt.token_ids.empty());
}

TEST(the_slot_says_how_to_sample) {
  Generating test;
  Ask ask{
      .ids = {5}, .seed = 77, .max_tokens = 4, .top_k = 64, .temperature = 0.5f, .top_p = 0.25f, .ignore_eos = true};
  ask.stop_ids = {8, 299};
  test.start("Predict", ask);
  const Slot& slot = test.dispatcher->slot();
  CHECK_EQ(slot.sampling.seed, u64(77));
  CHECK_EQ(slot.sampling.max_tokens, 4u);
  CHECK_EQ(slot.sampling.top_k, 64u);
  CHECK_EQ(slot.sampling.temperature, 0.5f);
  CHECK_EQ(slot.sampling.top_p, 0.25f);
  CHECK_EQ(slot.sampling.stop_ids.count, 2u);
  CHECK_EQ(slot.sampling.stop_ids.ids[1], 299u);
  CHECK_EQ(int(slot.flags), int(kIgnoreEos));
  test.finish('x', Finish::kLength);
  test.start("Generate", {.ids = {5}});
  const Slot& usual = test.dispatcher->slot();
  CHECK_EQ(usual.sampling.max_tokens, kMaxOutput);
  CHECK_EQ(usual.sampling.top_p, 1.0f);
  CHECK_EQ(usual.sampling.temperature, 0.0f);
  CHECK_EQ(int(usual.flags), int(kProgress));
  const u64 seed = usual.sampling.seed;
  test.start("Generate", {.ids = {5}});
  CHECK(test.dispatcher->slot(1).sampling.seed != seed);
}

TEST(the_slot_says_what_changes_logits) {
  Generating test;
  test.start("Predict", {.ids = {5}});
  const Sampling& usual = test.dispatcher->slot().sampling;
  CHECK(usual.repetition_penalty == 1 && !usual.no_repeat_ngram_size && !usual.min_tokens && !usual.min_length);
  CHECK_EQ(usual.suppress_ids.count, 0u);
  test.finish('x', Finish::kLength);

  test.service.setups()[kGeneratorRoute].checkpoint_sampling = {
      .repetition_penalty = 1.5f, .no_repeat_ngram_size = 3, .min_tokens = 7, .min_length = 11};
  test.start("Predict", {.ids = {5}});
  const Sampling& checkpoints = test.dispatcher->slot().sampling;
  CHECK(checkpoints.repetition_penalty == 1.5f && checkpoints.no_repeat_ngram_size == 3);
  CHECK(checkpoints.min_tokens == 7 && checkpoints.min_length == 11);
  test.finish('x', Finish::kLength);

  Ask ask{.ids = {5}, .max_tokens = 4};
  ask.repetition_penalty = 0.5f, ask.no_repeat_ngram_size = 0, ask.min_tokens = 4, ask.suppress_ids = {9, 299};
  test.start("Predict", ask);
  const Sampling& own = test.dispatcher->slot().sampling;
  CHECK(own.repetition_penalty == 0.5f && own.no_repeat_ngram_size == 0 && own.min_tokens == 4);
  CHECK_EQ(own.min_length, 0u);  // the request's minimum replaces both of the checkpoint's
  CHECK(own.suppress_ids.count == 2 && own.suppress_ids.ids[0] == 9 && own.suppress_ids.ids[1] == 299);
}

TEST(a_request_cannot_suppress_all_that_is_forced) {
  Generating test;
  test.service.setups()[kGeneratorRoute].forced_ids = {7, 8};
  Ask ask{.ids = {5}};
  ask.suppress_ids = {8, 3};
  test.start("Predict", ask);
  test.finish('x', Finish::kLength);
  ask.suppress_ids = {8, 3, 7};
  const i32 stream = test.send("Predict", ask);
  CHECK_EQ(test.answer(stream).fields["grpc-message"],
           std::string("generate.suppress_token_ids: 3 ids, with all 2 that the checkpoint's forced_eos_token_id "
                       "forces; leave one of those out"));
}

// The edge has put them into the item: the client never named them.
TEST(an_edges_item_may_have_what_the_checkpoint_says) {
  Generating test;
  service::ModelRoutes& routes = test.service.routes();
  routes.setup(kGeneratorRoute).checkpoint_sampling = {.no_repeat_ngram_size = 65, .min_tokens = 20};
  service::RefusalWriter refusals{service::TimeLimits{}};
  service::RequestChecker checker(routes, refusals, ~u64(0));
  const struct {
    Input input;
    u32 ngram;
    std::string_view refused;
  } table[] = {{Input::kStep, 65, ""},
               {Input::kStep, 66, "generate.no_repeat_ngram_size"},
               {Input::kTokenIds, 65, "generate.no_repeat_ngram_size"},
               {Input::kTokenIds, 64, "generate.min_tokens"}};
  for (const auto& row : table) {
    RequestView view;
    view.model = routes.name(kGeneratorRoute), view.input = row.input, view.has_generate = true;
    view.generate.max_tokens = 5, view.generate.min_tokens = 20, view.generate.no_repeat_ngram_size = row.ngram;
    u32 route;
    CHECK_EQ(checker.check(view, {}, route).field, row.refused);
  }
}

TEST(refusals_name_the_field_and_the_limit) {
  struct {
    const char* message;
    Ask ask;
    const char* method = "Predict";
  } const cases[] = {
      {"generate.max_tokens: 25, at most 24", {.ids = {1}, .max_tokens = 25}},
      {"generate.stop_token_ids: id 300, the vocabulary has 300", {.ids = {1}, .stop_ids = {1, 300}}},
      {"generate.temperature: -1, must be a finite number, 0 or more", {.ids = {1}, .temperature = -1}},
      {"generate.temperature: nan, must be a finite number, 0 or more",
       {.ids = {1}, .temperature = std::numeric_limits<float>::quiet_NaN()}},
      {"generate.top_k: 65, must be at most 64", {.ids = {1}, .top_k = 65}},
      {"generate.top_logprobs: 21, must be at most 20", {.ids = {1}, .top_logprobs = 21}},
      {"generate.top_p: 1.5, must be above 0 and at most 1", {.ids = {1}, .top_p = 1.5}},
      {"generate.repetition_penalty: -1, must be a finite number above 0", {.ids = {1}, .repetition_penalty = -1.0f}},
      {"generate.repetition_penalty: nan, must be a finite number above 0",
       {.ids = {1}, .repetition_penalty = std::numeric_limits<float>::quiet_NaN()}},
      {"generate.repetition_penalty: inf, must be a finite number above 0",
       {.ids = {1}, .repetition_penalty = std::numeric_limits<float>::infinity()}},
      {"generate.no_repeat_ngram_size: 65, must be at most 64", {.ids = {1}, .no_repeat_ngram_size = 65}},
      {"generate.min_tokens: 25, at most max_tokens, 24", {.ids = {1}, .min_tokens = 25}},
      {"generate.min_tokens: 5, at most max_tokens, 4", {.ids = {1}, .max_tokens = 4, .min_tokens = 5}},
      {"generate.suppress_token_ids: 9 ids, at most 8", {.ids = {1}, .suppress_ids = Ids(9, 1)}},
      {"generate.suppress_token_ids: id 300, the vocabulary has 300", {.ids = {1}, .suppress_ids = {1, 300}}},
      {"generate.stop: 17 strings, at most 16", {.ids = {1}, .stop = std::vector<std::string>(17, "x")}},
      {"generate.stop: string 1 has 0 bytes, must have 1 to 256", {.ids = {1}, .stop = {"a", ""}}},
      {"generate.stop: string 0 has 257 bytes, must have 1 to 256", {.ids = {1}, .stop = {std::string(257, 'x')}}},
      {"generate.stop_token_ids: 9 ids, at most 8", {.ids = {1}, .stop_ids = Ids(9, 1)}},
      {"token_ids: id 300, the vocabulary has 300", {.ids = {300}}},
      {"token_ids: 33 tokens, at most 32; set truncate to have it cut; this model's maximum context length is 32 "
       "tokens",
       {.ids = Ids(33, 1)}},
      {"pair: 2 texts, at most 1 for the model 'generator', which generates", {.pair = true}},
      {"output.dtype: 2, but the model 'generator' generates text; leave it unset", {.ids = {1}, .dtype = 2}},
      {"output.dimensions: 2, but the model 'generator' generates text; leave it unset", {.ids = {1}, .dimensions = 2}},
      {"output.normalize: 1, but the model 'generator' generates text; leave it unset",
       {.ids = {1}, .normalize = true}},
      {"output.top_labels: 2, but the model 'generator' generates text; leave it unset", {.ids = {1}, .top_labels = 2}},
      {"output.raw_scores: 1, but the model 'generator' generates text; leave it unset",
       {.ids = {1}, .raw_scores = true}},
      {"generate: the model 'encoder' does not generate text; leave it unset",
       {.ids = {1}, .model = "encoder", .max_tokens = 1}},
      {"model: 'encoder' does not generate text; call Predict", {.ids = {1}, .model = "encoder"}, "Generate"},
  };
  Generating test;
  for (const auto& c : cases)
    for (const char* method : {"Predict", "Generate"}) {
      if (std::string(c.method) == "Generate" && std::string(method) == "Predict") continue;
      if (c.ask.model == "encoder" && std::string(method) != c.method) continue;
      const i32 stream = test.send(method, c.ask);
      CHECK_EQ(test.answer(stream).code(), kInvalid);
      CHECK_EQ(test.answer(stream).fields["grpc-message"], std::string(c.message));
      CHECK_EQ(test.answer(stream).header_blocks, 1);  // trailers-only
    }
  CHECK_EQ(test.dispatcher->claim(), size_t(0));
}

// They have no text in which they could be found.
TEST(stop_strings_that_are_special_tokens) {
  const auto detokenizer = test_detokenizer();
  RequestView view;
  const std::string_view stops[] = {"</s>", "no token", "<|end|>", "</s>"};
  view.generate.stop = {4, stops};
  view.generate.stop_ids = {2, {7, kEos}};
  StopIds ids;
  CHECK_EQ(stop_ids(view, nullptr, ids), 2u);
  text::Detokenizer with_specials = *detokenizer;
  with_specials.set_specials({{kEos, "</s>"}, {205, "<|end|>"}});
  CHECK_EQ(stop_ids(view, &with_specials, ids), 3u);
  CHECK(ids[0] == 7 && ids[1] == kEos && ids[2] == 205);
}

TEST(without_a_detokenizer_there_are_ids_only) {
  Generating test;
  test.service.setups()[kGeneratorRoute].detokenizer.reset();
  i32 stream = test.send("Predict", {.ids = {1}, .stop = {"x"}});
  CHECK_EQ(test.answer(stream).fields["grpc-message"],
           std::string("generate.stop: the model 'generator' has no tokenizer, so stop strings cannot be found; use "
                       "stop_token_ids"));
  stream = test.start("Generate", {.ids = {1}});
  test.make({'a'});
  test.finish('b', Finish::kLength);
  check_end(test, stream, FinishReason::kLength, 2);
  CHECK_EQ(text_of(test.chunks(stream)), std::string());
}

TEST(a_stream_brings_tokens_as_they_are_made) {
  Generating test;
  const i32 stream = test.start("Generate", {.ids = {5, 6}, .request_id = 3, .logprobs = true, .timings = true});
  CHECK_EQ(test.answer(stream).header_blocks, 0);
  test.make({kHello});
  CHECK_EQ(test.answer(stream).header_blocks, 1);
  CHECK_EQ(test.chunks(stream).size(), size_t(1));
  CHECK_EQ(test.chunks(stream)[0].text, std::string("hello "));
  test.make({'w'});
  test.finish(kEos, Finish::kStop);
  const auto chunks = test.chunks(stream);
  check_end(test, stream, FinishReason::kStop, 3);
  CHECK_EQ(text_of(chunks), std::string("hello w"));
  CHECK(ids_of(chunks) == Ids({kHello, 'w', kEos}));
  CHECK(chunks[1].logprobs == std::vector<float>({-1.5f}));
  CHECK(chunks.back().has_timings && !chunks[0].has_timings);
  for (const Chunk& chunk : chunks) CHECK_EQ(chunk.request_id, u64(3));
  CHECK_EQ(chunks.back().input_tokens, u64(2));
  CHECK_EQ(test.counted(kGenerate, StatusCode::kOk), u64(1));
  CHECK_EQ(test.items(StatusCode::kOk), u64(1));
}

TEST(tokens_of_one_turn_are_one_chunk) {
  Generating test;
  const i32 stream = test.start("Generate", {.ids = {5}});
  for (const u32 id : {'a', 'b', 'c'}) test.dispatcher->make(id);
  test.client->run();
  CHECK_EQ(test.chunks(stream).size(), size_t(1));
  CHECK_EQ(test.chunks(stream)[0].text, std::string("abc"));
  test.dispatcher->make('d');
  test.finish('e', Finish::kLength);
  check_end(test, stream, FinishReason::kLength, 5);
  CHECK_EQ(test.chunks(stream).size(), size_t(2));
  CHECK_EQ(text_of(test.chunks(stream)), std::string("abcde"));
}

TEST(lost_hints_lose_no_token) {
  Generating test;
  const i32 stream = test.start("Generate", {.ids = {5}});
  test.dispatcher->make('a', 0, false);
  test.client->run();
  CHECK(test.chunks(stream).empty());
  test.make({'b'});
  CHECK_EQ(text_of(test.chunks(stream)), std::string("ab"));
  test.dispatcher->make('c', 0, false);
  test.finish('d', Finish::kLength);
  check_end(test, stream, FinishReason::kLength, 4);
  CHECK_EQ(text_of(test.chunks(stream)), std::string("abcd"));
}

TEST(half_a_character_waits_for_the_other) {
  Generating test;
  i32 stream = test.start("Generate", {.ids = {5}});
  test.make({'a', kHalf});
  CHECK_EQ(test.chunks(stream).size(), size_t(2));
  CHECK_EQ(test.chunks(stream)[1].text, std::string());
  CHECK(test.chunks(stream)[1].ids == Ids({kHalf}));
  test.make({kOtherHalf});
  CHECK_EQ(test.chunks(stream)[2].text, std::string("\xe2\x82\xac"));
  test.finish(kHalf, Finish::kLength);  // its other half never comes
  check_end(test, stream, FinishReason::kLength, 4);
  CHECK_EQ(text_of(test.chunks(stream)), std::string("a\xe2\x82\xac\xef\xbf\xbd"));
}

TEST(the_token_that_ends_has_no_text) {
  // With ignore_eos the same token ends nothing.
  for (const u32 end : {u32(kEos), u32('s')})
    for (const char* method : {"Predict", "Generate"}) {
      Generating test;
      const i32 stream = test.start(method, {.ids = {5}, .stop_ids = {'s'}});
      test.make({'a'});
      test.finish(end, Finish::kStop);
      const Chunk found = *method == 'P' ? test.prediction(stream) : test.chunks(stream)[0];
      CHECK_EQ(found.text, std::string("a"));
      if (*method == 'G') CHECK_EQ(text_of(test.chunks(stream)), std::string("a"));
    }
  Generating test;
  const i32 stream = test.start("Generate", {.ids = {5}, .ignore_eos = true});
  test.make({kEos});
  test.finish('a', Finish::kLength);
  CHECK_EQ(text_of(test.chunks(stream)), std::string("</s>a"));
}

TEST(stop_strings_end_a_stream_across_tokens) {
  Generating test;
  const i32 stream = test.start("Generate", {.ids = {5}, .stop = {"zz", "cde"}});
  test.make({'a', 'b', 'c'});
  CHECK_EQ(text_of(test.chunks(stream)), std::string("ab"));
  CHECK_EQ(ids_of(test.chunks(stream)).size(), size_t(3));
  test.make({'d'});
  for (const u32 id : {'e', 'f'}) test.dispatcher->make(id);  // it runs on until it hears
  test.client->run();
  check_end(test, stream, FinishReason::kStop, 5);
  CHECK_EQ(text_of(test.chunks(stream)), std::string("ab"));
  CHECK(test.dispatcher->controls() == std::vector<Control>({Control::kStop}));
  CHECK_EQ(test.counted(kGenerate, StatusCode::kOk), u64(1));
  test.make({'g'});
  CHECK_EQ(ids_of(test.chunks(stream)).size(), size_t(5));
}

TEST(stop_strings_that_do_not_come_hold_nothing_back_in_the_end) {
  for (const char* method : {"Predict", "Generate"}) {
    Generating test;
    const i32 stream = test.start(method, {.ids = {5}, .stop = {"bcd"}});
    test.make({'a', 'b'});
    test.finish('c', Finish::kLength);
    if (*method == 'P') {
      CHECK_EQ(test.prediction(stream).text, std::string("abc"));
    } else {
      check_end(test, stream, FinishReason::kLength, 3);
      CHECK_EQ(text_of(test.chunks(stream)), std::string("abc"));
    }
    CHECK(test.dispatcher->controls().empty());
  }
}

TEST(stop_strings_end_a_predict_at_once) {
  Generating test;
  const i32 stream = test.start("Predict", {.ids = {5}, .logprobs = true, .timings = true, .stop = {"lo w"}});
  CHECK(test.dispatcher->slot().flags & kProgress);
  test.make({'a', kHello});
  CHECK(!test.answer(stream).closed);
  test.make({'w'});
  CHECK(test.answer(stream).closed);
  const Chunk found = test.prediction(stream);
  CHECK_EQ(found.text, std::string("ahel"));
  CHECK(found.ids == Ids({'a', kHello, 'w'}));
  CHECK_EQ(found.logprobs.size(), size_t(3));
  CHECK_EQ(found.finish, u64(FinishReason::kStop));
  CHECK_EQ(found.output_tokens, u64(3));
  CHECK(test.dispatcher->controls() == std::vector<Control>({Control::kStop}));
  CHECK_EQ(test.counted(kPredict, StatusCode::kOk), u64(1));
}

TEST(a_stop_string_found_at_the_end_cuts_what_is_behind_it) {
  for (const char* method : {"Predict", "Generate"}) {
    Generating test;
    const i32 stream = test.start(method, {.ids = {5}, .stop = {"bc"}});
    test.make({'a'});
    for (const u32 id : {'b', 'c', 'd'}) test.dispatcher->make(id);
    test.finish('e', Finish::kLength);
    const Chunk last = *method == 'P' ? test.prediction(stream) : test.chunks(stream).back();
    CHECK_EQ(last.finish, u64(FinishReason::kStop));
    CHECK_EQ(last.output_tokens, u64(3));
    CHECK_EQ(test.answer(stream).code(), kOk);
  }
}

TEST(items_of_batches_and_streams_generate) {
  Generating test;
  std::string batch;
  for (const u64 id : {1, 2}) {
    const std::string item = Ask{.ids = {u32(id)}, .request_id = id, .stop = {"q"}}.bytes();
    batch += "\x0a" + std::string(1, char(item.size())) + item;
  }
  const i32 both = test.client->call("/fastqps.v1.PredictService/PredictBatch", framed(batch));
  test.client->run();
  const i32 one = test.call("PredictStream", {.ids = {3}, .request_id = 3, .max_tokens = 99});
  const i32 good = test.send("PredictStream", {.ids = {4}, .request_id = 4});
  CHECK_EQ(test.dispatcher->claim(), size_t(3));
  for (size_t i = 0; i < 3; i++) test.make({'a'}, i);
  test.make({'1', 'q'}, 0);  // ends at once
  test.finish('2', Finish::kLength, 1);
  test.finish('3', Finish::kStop, 1);
  const std::vector<Chunk> items = batch_items(test.answer(both).data);
  CHECK_EQ(items.size(), size_t(2));
  CHECK_EQ(items[0].text, std::string("a1"));
  CHECK_EQ(items[0].finish, u64(FinishReason::kStop));
  CHECK_EQ(items[1].text, std::string("a2"));
  CHECK_EQ(items[1].finish, u64(FinishReason::kLength));
  CHECK_EQ(test.prediction(one).code, i32(StatusCode::kInvalidArgument));
  CHECK_EQ(test.prediction(good).text, std::string("a"));  // its last token ended it
  CHECK(test.dispatcher->controls() == std::vector<Control>({Control::kStop}));
}

// Each choice is an item with a seed of its own, and the prompt counts once.
TEST(choices_are_answered_together) {
  Generating test;
  const i32 stream = test.send("Predict", {.ids = {5, 6}, .request_id = 9, .seed = 7, .n = 3});
  CHECK_EQ(test.dispatcher->claim(), size_t(3));
  for (u32 i = 0; i < 3; i++) CHECK_EQ(test.dispatcher->slot(i).sampling.seed, u64(7 + i));
  CHECK_EQ(test.dispatcher->slot(0).flags & kLogprobs, 0);
  test.make({'a'}, 2);
  test.finish('z', Finish::kLength, 2);
  test.finish('y', Finish::kLength, 1);
  CHECK(!test.answer(stream).closed);
  test.finish('x', Finish::kLength, 0);
  const Chunk found = test.prediction(stream);
  CHECK_EQ(test.answer(stream).code(), kOk);
  CHECK_EQ(found.request_id, u64(9));
  CHECK_EQ(found.text, "x");
  CHECK(found.others == (std::vector<std::string>{"y", "az"}));
  CHECK_EQ(found.input_tokens, u64(2));
  CHECK_EQ(found.output_tokens, u64(4));
  CHECK_EQ(test.counted(kPredict, StatusCode::kOk), u64(1));
  CHECK_EQ(test.items(StatusCode::kOk), u64(3));
}

// The double's later tokens are less likely, so the shortest text is the best.
TEST(the_best_candidates_are_the_choices) {
  for (const bool logprobs : {false, true}) {
    Generating test;
    const i32 stream = test.send("Predict", {.ids = {5}, .logprobs = logprobs, .n = 2, .best_of = 3});
    CHECK_EQ(test.dispatcher->claim(), size_t(3));
    CHECK(test.dispatcher->slot(0).flags & kLogprobs);
    test.make({'a', 'b'}, 0), test.make({'c'}, 1);
    for (const u32 last : {'x', 'y', 'z'}) test.finish(last, Finish::kLength);
    const Chunk found = test.prediction(stream);
    CHECK_EQ(found.text, "z");
    CHECK(found.others == std::vector<std::string>{"cy"});
    CHECK_EQ(found.logprobs.size(), size_t(logprobs));
    CHECK_EQ(found.output_tokens, u64(6));
  }
}

TEST(chunks_say_their_choice) {
  Generating test;
  const i32 stream = test.send("Generate", {.ids = {5}, .request_id = 4, .n = 2});
  CHECK_EQ(test.dispatcher->claim(), size_t(2));
  test.make({'a'}, 1), test.make({'b', 'c'}, 0), test.finish('d', Finish::kLength, 1);
  CHECK(!test.answer(stream).closed);
  test.finish('e', Finish::kStop, 0);
  CHECK_EQ(test.answer(stream).code(), kOk);
  std::string said;
  for (const Chunk& chunk : test.chunks(stream)) {
    CHECK_EQ(chunk.request_id, u64(4));
    CHECK_EQ(chunk.has_usage, chunk.finish != 0);
    said += std::to_string(chunk.choice) + chunk.text + (chunk.finish ? "." : "");
    if (chunk.has_usage) CHECK_EQ(chunk.output_tokens, u64(chunk.choice ? 2 : 3));
  }
  CHECK_EQ(said, "1a0b0c1d.0.");
  CHECK_EQ(test.counted(kGenerate, StatusCode::kOk), u64(1));
}

TEST(choices_that_are_refused) {
  const std::pair<std::pair<const char*, Ask>, const char*> cases[] = {
      {{"Predict", {.ids = {5}, .n = 129}}, "generate.n: 129, at most 128"},
      {{"Predict", {.ids = {5}, .best_of = 6}}, "generate.best_of: 6, at most 5 answers to one request"},
      {{"Predict", {.ids = {5}, .n = 3, .best_of = 2}}, "generate.best_of: 2, at least n, 3"},
      {{"Generate", {.ids = {5}, .n = 1, .best_of = 2}},
       "generate.best_of: 2 with n 1: which ones are best is known only at the end, so a stream has as many as n"},
      {{"Predict", {.ids = {kVocab}, .n = 2}}, "token_ids: id 300, the vocabulary has 300"},
  };
  PredictOptions options;
  options.settings.max_request_items = 5;
  for (const auto& [call, reason] : cases) {
    Generating test(Generating::usual(), {}, options);
    const i32 stream = test.send(call.first, call.second);
    CHECK_EQ(test.answer(stream).code(), kInvalid);
    CHECK_EQ(test.answer(stream).fields["grpc-message"], reason);
    CHECK_EQ(test.dispatcher->claim(), size_t(0));
  }
  Generating test;
  const i32 stream = test.send("PredictStream", {.ids = {4}, .n = 2});
  CHECK_EQ(test.prediction(stream).code, i32(StatusCode::kInvalidArgument));
}

// The client hears of the failure at once, and what it does not get is not made.
TEST(a_failed_choice_ends_the_others) {
  for (const char* method : {"Predict", "Generate"}) {
    Generating test;
    const i32 stream = test.send(method, {.ids = {5}, .n = 3});
    CHECK_EQ(test.dispatcher->claim(), size_t(3));
    test.make({'a'}, 2);
    Slot& slot = test.dispatcher->slot(1);
    test.dispatcher->finish('x', Finish::kLength, 1);
    slot.kind = fastqps::Answer::kFloats;
    test.client->run();
    CHECK_EQ(test.answer(stream).code(), kInternal);
    CHECK(test.answer(stream).closed);
    CHECK_EQ(test.chunks(stream).size(), size_t(*method == 'G'));
    CHECK_EQ(test.items(StatusCode::kCancelled), u64(2));
    CHECK_EQ(test.world.segment.door(0).slots_used.load(), 2u);
    CHECK(test.dispatcher->controls() == std::vector<Control>(2, Control::kCancel));
    test.make({'b'}, 1);  // too late
    test.finish('c', Finish::kLength, 0), test.finish('c', Finish::kLength, 0);
    CHECK_EQ(test.world.segment.door(0).slots_used.load(), 0u);
    CHECK_EQ(test.counted(*method == 'G' ? kGenerate : kPredict, StatusCode::kInternal), u64(1));
  }
}

TEST(choices_that_nobody_waits_for) {
  for (const bool lost : {false, true}) {
    Generating test;
    const i32 stream = test.send("Generate", {.ids = {5}, .n = 3});
    CHECK_EQ(test.dispatcher->claim(), size_t(3));
    test.make({'a'}, 0), test.finish('b', Finish::kLength, 1);
    lost ? test.client->close() : (test.client->reset(stream), test.client->run());
    for (int i = 0; i < 10; i++) test.door.turn();
    CHECK_EQ(test.dispatcher->controls().size(), size_t(2));
    CHECK_EQ(test.world.segment.door(0).slots_used.load(), 2u);
    CHECK_EQ(test.counted(kGenerate, StatusCode::kCancelled), u64(1));
    test.dispatcher->finish('c', Finish::kLength), test.dispatcher->finish('c', Finish::kLength);
    for (int i = 0; i < 10; i++) test.door.turn();
    CHECK_EQ(test.world.segment.door(0).slots_used.load(), 0u);
  }
}

TEST(a_deadline_ends_all_choices) {
  Generating test;
  const u64 asked = now_ns();
  const i32 stream = test.send("Generate", {.ids = {5}, .n = 2}, {{"grpc-timeout", "300m"}});
  CHECK_EQ(test.dispatcher->claim(), size_t(2));
  test.make({'a'}, 1);
  ends_after(test.door, *test.client, asked, 300 * kMillisecond, [&] { return test.answer(stream).closed; });
  CHECK_EQ(test.answer(stream).code(), kDeadline);
  CHECK(test.dispatcher->controls() == std::vector<Control>(2, Control::kCancel));
  CHECK_EQ(test.counted(kGenerate, StatusCode::kDeadlineExceeded), u64(1));
}

TEST(death_before_the_first_chunk_runs_it_again) {
  Generating test;
  // Tokens are made and hints lost, so nothing has been sent; and a Predict has read half of its stop string.
  const i32 stream = test.start("Generate", {.ids = {5}});
  const i32 predict = test.start("Predict", {.ids = {6}, .stop = {"bc"}});
  test.dispatcher->make('x', 0, false);
  test.make({'a', 'b'}, 1);
  const u64 seed = test.dispatcher->slot(1).sampling.seed;
  test.dispatcher->die();
  test.client->run();
  CHECK(!test.answer(stream).closed && !test.answer(predict).closed);
  test.dispatcher = std::make_unique<TestDispatcher>(test.world.segment, &test.world.fds, 2);
  CHECK_EQ(test.dispatcher->claim(), size_t(2));  // no suspects: both had made tokens
  CHECK_EQ(test.dispatcher->slot(1).sampling.seed, seed);
  for (size_t which : {1, 0}) {
    CHECK_EQ(test.dispatcher->slot(which).n_made.load(), 0u);
    test.make({'c'}, which);
    test.finish('d', Finish::kLength, which);
  }
  check_end(test, stream, FinishReason::kLength, 2);
  CHECK_EQ(text_of(test.chunks(stream)), std::string("cd"));
  CHECK_EQ(test.prediction(predict).text, std::string("cd"));
}

TEST(death_after_the_first_chunk_ends_the_stream) {
  Generating test;
  const i32 stream = test.start("Generate", {.ids = {5}});
  test.make({'a'});
  test.dispatcher->die();
  test.client->run();
  CHECK_EQ(test.answer(stream).code(), kInternal);
  CHECK(test.answer(stream).fields["grpc-message"].find("the stream had begun") != std::string::npos);
  CHECK_EQ(text_of(test.chunks(stream)), std::string("a"));
  CHECK_EQ(test.counted(kGenerate, StatusCode::kInternal), u64(1));
  test.dispatcher = std::make_unique<TestDispatcher>(test.world.segment, &test.world.fds, 2);
  CHECK_EQ(test.dispatcher->claim(), size_t(0));
}

// What waited for the last dispatcher was asked for. What comes then is turned away at once: it is no load.
TEST(without_dispatchers_only_what_was_taken_is_lost) {
  Generating test;
  const i32 waits = test.send("Generate", {.ids = {5}});
  CHECK_EQ(test.world.segment.door(0).slots_used.load(), 1u);
  test.world.segment.route(kGeneratorRoute).dispatchers = 0;
  const i32 late = test.send("Generate", {.ids = {6}});
  CHECK_EQ(test.answer(late).code(), kUnavailable);
  CHECK_EQ(test.world.segment.door(0).lost_items.load(), u64(0));
  for (int i = 0; i < 100 && test.items(StatusCode::kUnavailable) < 2; i++) test.client->run_for(100'000'000);
  CHECK_EQ(test.answer(waits).code(), kUnavailable);
  CHECK_EQ(test.items(StatusCode::kUnavailable), u64(2));
  CHECK_EQ(test.world.segment.door(0).lost_items.load(), u64(1));
}

TEST(a_cancelled_stream_is_told_to_its_dispatcher) {
  Generating test;
  const i32 queued = test.send("Generate", {.ids = {5}});
  test.client->reset(queued);
  test.client->run();
  CHECK_EQ(test.dispatcher->claim(), size_t(0));
  const i32 stream = test.start("Generate", {.ids = {5}});
  test.make({'a'});
  test.client->reset(stream);
  test.client->run();
  CHECK(test.dispatcher->controls() == std::vector<Control>({Control::kCancel}));
  CHECK_EQ(test.world.segment.door(0).slots_used.load(), 1u);
  test.make({'b'});  // too late
  test.finish('c', Finish::kLength);
  CHECK_EQ(test.world.segment.door(0).slots_used.load(), 0u);
  CHECK_EQ(test.counted(kGenerate, StatusCode::kCancelled), u64(2));
  CHECK_EQ(test.items(StatusCode::kCancelled), u64(2));
  CHECK_EQ(test.items(StatusCode::kOk), u64(0));
}

TEST(a_lost_connection_cancels_its_streams) {
  Generating test;
  test.start("Generate", {.ids = {5}});
  test.start("Generate", {.ids = {6}});
  test.make({'a'}, 0);
  test.client->close();
  for (int i = 0; i < 10; i++) test.door.turn();
  CHECK_EQ(test.dispatcher->controls().size(), size_t(2));
  CHECK_EQ(test.counted(kGenerate, StatusCode::kCancelled), u64(2));
}

TEST(a_deadline_ends_a_stream_that_has_begun_or_not) {
  for (const bool begun : {true, false}) {
    Generating test;
    const u64 asked = now_ns();
    const i32 stream = test.start("Generate", {.ids = {5}}, {{"grpc-timeout", "300m"}});
    if (begun) test.make({'a'});
    ends_after(test.door, *test.client, asked, 300 * kMillisecond, [&] { return test.answer(stream).closed; });
    CHECK_EQ(test.answer(stream).code(), kDeadline);
    CHECK_EQ(test.answer(stream).header_blocks, begun ? 2 : 1);
    CHECK_EQ(test.answer(stream).fields["grpc-message"], std::string("the deadline passed at stage device"));
    CHECK_EQ(text_of(test.chunks(stream)), std::string(begun ? "a" : ""));
    CHECK(test.dispatcher->controls() == std::vector<Control>({Control::kCancel}));
    test.finish('b', Finish::kLength);
    CHECK_EQ(test.chunks(stream).size(), size_t(begun));
    CHECK_EQ(test.counted(kGenerate, StatusCode::kDeadlineExceeded), u64(1));
  }
}

// A usual generation takes 10 s here, but what asks for a few tokens has its answer long before.
TEST(a_short_generation_is_not_refused_for_the_length_of_others) {
  Generating test;
  DispatcherLine& dispatcher = test.world.segment.dispatcher(0);
  dispatcher.step_usual_ns = 10'000'000'000;
  dispatcher.items_done = 1;
  test.client->run();
  dispatcher.items_done = 2;
  const i32 waits = test.generate({.ids = {5}});
  test.client->run_for(60'000'000);  // a window of the admission's estimates
  const i32 whole = test.generate({.ids = {5}, .timeout_us = 5'000'000});
  const i32 brief = test.send("Generate", {.ids = {5}, .timeout_us = 5'000'000, .max_tokens = kMaxOutput / 4});
  CHECK_EQ(test.answer(whole).code(), kExhausted);
  CHECK(!test.answer(brief).closed && !test.answer(waits).closed);
  CHECK_EQ(test.dispatcher->claim(), size_t(2));
}

TEST(a_slow_reader_gets_the_rest_in_one) {
  Generating test(Generating::usual(), {.call_unsent_bytes = 64});
  Client slow(test.door, 16);  // a window of 16 bytes, which it opens only when told
  const std::string path = "/fastqps.v1.PredictService/Generate";
  const i32 stream = slow.call(path, framed(Ask{.ids = {5}}.bytes()));
  slow.run();
  CHECK_EQ(test.dispatcher->claim(), size_t(1));
  for (u32 i = 0; i + 1 < kMaxOutput; i++) test.dispatcher->make('a' + i), slow.run();
  test.dispatcher->finish('y', Finish::kLength);
  slow.run();
  CHECK(!slow.answers[stream].closed);
  CHECK_EQ(test.world.segment.door(0).slots_used.load(), 0u);  // its slot does not wait for it
  nghttp2_submit_window_update(slow.session(), NGHTTP2_FLAG_NONE, stream, 10000);
  slow.run();
  CHECK_EQ(slow.answers[stream].code(), kOk);
  std::vector<Chunk> chunks;
  for (const std::string& message : unframed(slow.answers[stream].data)) chunks.push_back(read_chunk(message));
  CHECK_EQ(text_of(chunks), std::string("abcdefghijklmnopqrstuvwy"));
  CHECK_EQ(ids_of(chunks).size(), size_t(kMaxOutput));
  CHECK(chunks.size() < 12);  // 16 bytes went out, 64 and a bit waited, the rest was one
  CHECK(chunks.back().text.size() > 12);
}

TEST(bytes_that_no_dispatcher_writes) {
  struct {
    const char* what;
    void (*spoil)(Slot&);
  } const cases[] = {
      {"kind", [](Slot& s) { s.kind = fastqps::Answer::kFloats; }},
      {"finish", [](Slot& s) { s.finish = Finish::kNot; }},
      {"finish", [](Slot& s) { s.finish = Finish(9); }},
      {"too many", [](Slot& s) { s.n_values = kMaxOutput + 1; }},
      {"no more than were sent", [](Slot& s) { s.n_values = 2; }},
      {"none", [](Slot& s) { s.n_values = 0; }},
  };
  for (const auto& c : cases) {
    Generating test;
    const i32 stream = test.start("Generate", {.ids = {5}});
    test.make({'a', 'b'});
    Slot& slot = test.dispatcher->slot();
    test.dispatcher->finish('c', Finish::kLength);
    c.spoil(slot);
    test.client->run();
    CHECK_EQ(test.answer(stream).code(), kInternal);
  }
  Generating test;  // n_made alone: nothing is read that cannot be there
  const i32 stream = test.start("Generate", {.ids = {5}});
  test.dispatcher->slot().n_made = 1'000'000;
  test.dispatcher->hint();
  test.client->run();
  CHECK(test.chunks(stream).empty());
  test.dispatcher->slot().n_made = 0;
  test.make({'a', 4'000'000'000u});  // an id beyond every vocabulary is passed on
  test.finish('b', Finish::kLength);
  check_end(test, stream, FinishReason::kLength, 3);
}

TEST(a_drain_lets_streams_end) {
  Generating test;
  const i32 stream = test.start("Generate", {.ids = {5}});
  test.make({'a'});
  test.door.drain(10'000'000'000);
  test.client->run_for(20'000'000);
  CHECK(!test.client->goaways.empty());
  test.finish('b', Finish::kLength);
  check_end(test, stream, FinishReason::kLength, 2);
}

TEST(many_streams_on_one_connection) {
  Generating test(Generating::usual(256));
  constexpr u32 kStreams = 200, kTokens = 8;
  std::vector<i32> streams;
  for (u32 i = 0; i < kStreams; i++) streams.push_back(test.generate({.ids = {i + 1}, .request_id = i + 1}));
  test.client->run();
  test.claim_all();
  CHECK_EQ(test.dispatcher->running.size(), size_t(kStreams));
  for (u32 k = 0; k + 1 < kTokens; k++) {
    for (u32 i = 0; i < kStreams; i++) {
      const u32 first = test.world.segment.ids(test.dispatcher->slot(i))[0];
      test.dispatcher->make(first % 100 + k % 2, i);
    }
    test.client->run();
  }
  for (u32 i = kStreams; i-- > 0;) test.dispatcher->finish('.', Finish::kLength, i);
  test.client->run();
  for (u32 i = 0; i < kStreams; i++) {
    check_end(test, streams[i], FinishReason::kLength, kTokens);
    for (const Chunk& chunk : test.chunks(streams[i])) CHECK_EQ(chunk.request_id, u64(i + 1));
    CHECK_EQ(ids_of(test.chunks(streams[i]))[0], (i + 1) % 100);
  }
  CHECK_EQ(test.counted(kGenerate, StatusCode::kOk), u64(kStreams));
}

TEST(a_streamed_token_allocates_nothing) {
  Generating test(Generating::usual(64));
  constexpr u32 kStreams = 50, kWarm = 12;
  for (u32 i = 0; i < kStreams; i++) test.generate({.ids = {i + 1}, .stop = {"xyz", "wxw"}});
  test.client->run();
  test.claim_all();
  for (u32 k = 0; k + 1 < kMaxOutput; k++) {
    for (u32 i = 0; i < kStreams; i++) test.dispatcher->make("awx "[k % 4], i);
    const u64 before = allocations, writes = test.counters.writes;
    test.door.turn();
    if (k >= kWarm) CHECK_EQ(allocations, before);
    CHECK_EQ(test.counters.writes, writes + 1);  // of all streams of a connection
    test.client->run();
  }
}
