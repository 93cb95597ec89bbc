// Messages of tei.v1: every byte of one damaged or cut, and what becomes of scores.
#include <cmath>
#include <string>

#include "protocols/tei/grpc.h"
#include "tests/service/reader_world.h"

using namespace fastqps;
using namespace fastqps::test;
using namespace std::string_literals;

namespace {

ResponseView classified(std::span<const LabelView> labels, bool activates) {
  ResponseView view;
  view.output = Output::kClassification;
  view.labels = labels;
  view.request_id = ItemNote{7, activates}.as_id();
  return view;
}

}  // namespace

TEST(damaged_requests_are_read_or_refused) {
  World w;
  PredictReader predict(*w.routes, false), pairs(*w.routes, true);
  damage(predict, delimited(1, "text") + number(2, 1) + number(3, 1) + number(4, 0));
  damage(pairs, delimited(1, "a") + delimited(1, "Z\xc3\xbcrich") + number(2, 1));
  RerankReader rerank(*w.routes, 8);
  damage(rerank, delimited(1, "query") + delimited(2, "a") + delimited(2, "") + number(5, 1) + number(6, 0));
  RerankStreamReader stream(*w.routes);
  damage(stream, delimited(1, "query") + delimited(2, "a") + number(5, 1));
}

TEST(damaged_requests_to_embed_are_read_or_refused) {
  World w;
  w.segment.route(0).task = Task::kEmbed;
  EmbedReader embed(*w.routes);
  damage(embed, delimited(1, "text") + number(2, 1) + number(3, 0) + number(4, 0) + number(6, 3));
}

TEST(errors_name_the_field) {
  World w;
  EmbedReader embed(*w.routes);
  RerankReader rerank(*w.routes, 8);
  RerankStreamReader stream(*w.routes);
  const struct {
    RequestReader& reader;
    std::string message, error;
  } table[] = {{embed, delimited(1, "\xff"), "inputs: not valid UTF-8"},
               {embed, delimited(5, "\xff"), "prompt_name: not valid UTF-8"},
               {embed, "\x0a", "inputs: not valid protobuf"},
               {embed, number(2, 0x80), ": not valid protobuf"},
               {rerank, delimited(1, "\xff"), "query: not valid UTF-8"},
               {rerank, delimited(2, "a") + delimited(2, "\xff"), "texts: not valid UTF-8"},
               {stream, delimited(2, "\xff"), "text: not valid UTF-8"}};
  for (const auto& row : table) CHECK_EQ(error_of(row.reader, row.message), row.error);
}

TEST(the_context_of_a_stream_keeps_the_first_options) {
  World w;
  RerankStreamReader reader(*w.routes);
  std::string context;
  for (const char* text : {"one", "", "three"}) {
    reader.follow(context);
    const bool first = context.empty();
    const std::string message = delimited(1, "q") + delimited(2, text) + number(5, first) + number(4, !first);
    CHECK_EQ(error_of(reader, message), "");
    CHECK(!item_of(reader).output.raw_scores);
    context += reader.context();
  }
  const std::vector<std::string_view> texts = RankContext::texts(context);
  CHECK_EQ(texts.size(), 3u);
  CHECK(texts[0] == "one" && texts[1].empty() && texts[2] == "three");
}

TEST(ranks_are_sorted_and_fit_their_room) {
  const float scores[] = {-1, 2, 2, -30, 0};
  std::vector<LabelView> labels;
  for (const float score : scores) labels.push_back({"LABEL_0", score, 0});
  std::vector<ResponseView> items;
  std::string context(1, char(RankContext::kReturnText));
  for (const LabelView& label : labels) {
    items.push_back(classified({&label, 1}, true));
    RankContext::add_text(context, std::string(items.size() * 50, 'x'));
  }
  const u32 order[] = {1, 2, 4, 0, 3};
  const std::vector<Rank> ranks = ranked(items);
  for (u32 i = 0; i < 5; i++) {
    CHECK_EQ(ranks[i].index, order[i]);
    CHECK(std::abs(ranks[i].score - 1 / (1 + std::exp(-double(scores[order[i]])))) < 1e-7);
  }
  CHECK_EQ(metadata_of(items).characters, 35u);
  const AnswerWriter& writer = kRerankWriter;
  const AnsweredCall call{context, "m@1"};
  std::vector<u8> out(writer.room(call, items));
  CHECK(writer.write(call, items, out.data()) <= out.data() + out.size());
}

TEST(several_logits_become_shares) {
  const LabelView labels[] = {{"a", 1000, 0}, {"b", 999, 1}, {"c", -1000, 2}};
  const std::vector<float> scores = scores_of(classified(labels, true));
  CHECK(std::abs(scores[0] - 1 / (1 + std::exp(-1.0))) < 1e-6);
  CHECK(std::abs(scores[0] + scores[1] + scores[2] - 1) < 1e-6);
  CHECK_EQ(scores_of(classified(labels, false))[1], 999.0f);
}
