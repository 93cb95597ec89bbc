// Writes a request's token ids into its slot: those of the message, or those of its text.
#pragma once
#include <string>
#include <vector>

#include "contract/request_view.h"
#include "service/tables/tables.h"

namespace fastqps::service {

class SlotInput {
 public:
  explicit SlotInput(Tables& tables) : tables_(tables) {}

  // Writes the request's ids into the slot. If it hands the text to another thread instead, it sets item.tokenizing.
  Refusal fill(const RequestView& view, u32 route, u32 slot, Item& item);
  // The texts of `choices`, tokenized.
  Refusal read_choices(const RequestView& view, u32 route, std::unique_ptr<ChoiceTexts>& out);
  // Writes the ids that another thread has made of the item's text.
  Refusal check(TokenizeResult& result, Item& item);
  void write(TokenizeResult& result, Item& item);

 private:
  Refusal fill_step(const RequestView& view, u32 route, u32 slot);
  Refusal fill_chat(const RequestView& view, u32 route, u32 slot, Item& item);
  TokenizeJob chat_job(u32 slot, const Item& item, u32 most) const;
  Refusal settle_chat(std::vector<u32>& ids, u32 n_total, Item& item);
  Refusal fill_ids(const RequestView& view, const Route& route, u32 slot, Item& item);
  void write_empty(u32 slot, u32 id);
  void mark_words(u32 slot);
  Refusal take_role(const RequestView& view, u32 route, Item& item);
  void finish(u32 slot, const Item& item, u32 first_len, u32 n_tokens);
  void set_tokens(u32 slot, u32 route, u32 first_len, u32 n);
  Refusal check_tokenizer(const RequestView& view, u32 route);
  struct Texts {
    std::string_view first, second;
    bool pair;
  };
  Refusal word(const RequestView& view, u32 route, Texts& texts);
  Refusal unknown_prompt(std::string_view name, u32 route);
  Refusal bound_characters(u32 most, std::string_view& text, Item& item);
  Refusal bound_text(size_t bytes, const Item& item);
  Refusal hand_over(TokenizeJob job, size_t bytes, Item& item);
  Refusal busy(const char* why);
  u32 keep_specials(u32* ids, u32 n, const Item& item);
  Refusal check_tokens(const Item& item, u32 n_tokens, u32 n_total);
  Refusal check_ids(const char* field, const u32* ids, u32 n, const Route& route);
  Refusal too_long(const char* field, u32 tokens, u32 limit);

  Tables& tables_;
  std::vector<u32> ids_;               // of a request that is cut, or of a conversation
  std::vector<ChatMessage> messages_;  // of a conversation
  text::RenderedChat rendered_;
  std::string worded_;  // a text behind its prompt, or in its template
};

}  // namespace fastqps::service
