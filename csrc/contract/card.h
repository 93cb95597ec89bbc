// The card of a served model, as fastqps/models/card.py writes it into the segment: what the front door and the steps
// read of it. A field is a member and a row of kFields; card.py explains it, and has a field for each name here.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "contract/chat.h"
#include "contract/options.h"
#include "contract/types.h"

namespace fastqps {

// How an input is taken whose prompt_name means this role; of an empty name: every other input.
struct InputRole {
  std::string name;
  u32 max_tokens = 0;
  u32 expanded_to = 0;  // tokens of a shorter input, filled up by expansion_id; 0: none are added
  u32 expansion_id = 0;
  std::vector<u32> skipped;  // ids of tokens that get no vector, ascending
  std::string refusal;       // why such an input is refused; empty: it is not

  static constexpr auto kFields = std::tuple{std::pair{"name", &InputRole::name},
                                             std::pair{"max_tokens", &InputRole::max_tokens},
                                             std::pair{"expanded_to", &InputRole::expanded_to},
                                             std::pair{"expansion_id", &InputRole::expansion_id},
                                             std::pair{"skipped", &InputRole::skipped},
                                             std::pair{"refusal", &InputRole::refusal}};
};

// The text that is made of an input behind the prompt `name`; empty: of a request that names none. A part is a fixed
// text and what follows it: "first" or "second", the input's text of that name, with " trimmed" without the white space
// around it, or nothing. Without parts such an input is refused.
struct TextTemplate {
  using Parts = std::vector<std::pair<std::string, std::string>>;
  std::string name;
  Parts text, pair;

  // Replaces `to`.
  static void fill(const Parts& parts, std::string_view first, std::string_view second, std::string& to);

  static constexpr auto kFields =
      std::tuple{std::pair{"name", &TextTemplate::name}, std::pair{"text", &TextTemplate::text},
                 std::pair{"pair", &TextTemplate::pair}};
};

// The option of row `number` under the name that a checkpoint has for it, if it has one.
template <size_t number>
constexpr auto checkpoint_field() {
  constexpr auto row = std::get<number>(kSamplingOptions);
  if constexpr (row.checkpoint != nullptr)
    return std::make_tuple(std::pair{row.checkpoint, row.member});
  else
    return std::tuple{};
}

// Options of the checkpoint that change logits.
struct CheckpointOptions : Sampling {
  std::vector<u32> suppress_tokens, forced_eos_token_id;

  // The forced tokens that are not suppressed as well.
  std::vector<u32> forced() const;

  static constexpr auto kFields = std::tuple_cat(
      []<size_t... number>(std::index_sequence<number...>) {
        return std::tuple_cat(checkpoint_field<number>()...);
      }(std::make_index_sequence<std::tuple_size_v<decltype(kSamplingOptions)>>{}),
      std::tuple{std::pair{"suppress_tokens", &CheckpointOptions::suppress_tokens},
                 std::pair{"forced_eos_token_id", &CheckpointOptions::forced_eos_token_id}});
  static constexpr std::string_view kUnread[] = {"begin_suppress_tokens", "bad_words_ids"};  // of the steps, in Python
};

struct ModelCard {
  std::string name, version, task, activation;
  u32 dimensions = 0, max_input_tokens = 0, max_output_tokens = 0, vocab_size = 0;
  bool cuts_left = false, normalize = false, pairs_only = false;
  u32 position_offset = 0, second_segment_type = 0;
  i64 empty_id = -1;
  u32 max_characters = 0;
  std::vector<u32> prefix_ids, opening_ids;
  std::vector<std::string> labels;
  std::vector<u32> label_ids;
  std::optional<CheckpointOptions> logit_options;
  std::vector<std::pair<std::string, std::string>> prompts;  // name and text
  std::string default_prompt;                                // a name
  std::vector<TextTemplate> templates;                       // by prompt; none: texts stand behind their prompt
  std::vector<InputRole> roles;
  std::optional<ChatCard> chat;

  // Whether documents can be ranked by the score of its first label.
  bool ranks() const;
  // The text that a request gets which names no prompt.
  std::string_view default_prompt_text() const;

  static constexpr auto kFields = std::tuple{std::pair{"name", &ModelCard::name},
                                             std::pair{"version", &ModelCard::version},
                                             std::pair{"task", &ModelCard::task},
                                             std::pair{"activation", &ModelCard::activation},
                                             std::pair{"dimensions", &ModelCard::dimensions},
                                             std::pair{"max_input_tokens", &ModelCard::max_input_tokens},
                                             std::pair{"max_output_tokens", &ModelCard::max_output_tokens},
                                             std::pair{"vocab_size", &ModelCard::vocab_size},
                                             std::pair{"cuts_left", &ModelCard::cuts_left},
                                             std::pair{"normalize", &ModelCard::normalize},
                                             std::pair{"pairs_only", &ModelCard::pairs_only},
                                             std::pair{"position_offset", &ModelCard::position_offset},
                                             std::pair{"second_segment_type", &ModelCard::second_segment_type},
                                             std::pair{"empty_id", &ModelCard::empty_id},
                                             std::pair{"max_characters", &ModelCard::max_characters},
                                             std::pair{"prefix_ids", &ModelCard::prefix_ids},
                                             std::pair{"opening_ids", &ModelCard::opening_ids},
                                             std::pair{"labels", &ModelCard::labels},
                                             std::pair{"label_ids", &ModelCard::label_ids},
                                             std::pair{"logit_options", &ModelCard::logit_options},
                                             std::pair{"prompts", &ModelCard::prompts},
                                             std::pair{"default_prompt", &ModelCard::default_prompt},
                                             std::pair{"templates", &ModelCard::templates},
                                             std::pair{"roles", &ModelCard::roles},
                                             std::pair{"chat", &ModelCard::chat}};
  static constexpr std::string_view kUnread[] = {
      "path",    "family", "tokenizer", "pad_id",          "cls_id",  "sep_id",     "max_active_dims", "unknown_id",
      "eos_ids", "stamp",  "kv_values", "tokenizer_parts", "adapter", "against_id", "warnings"};
};

// What is wrong with the JSON of a card; empty: nothing.
std::string read_card(std::string_view json, ModelCard& to);

}  // namespace fastqps
