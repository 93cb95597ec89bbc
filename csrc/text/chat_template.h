// Conversations as text and special tokens, by the table of a model's chat template.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "contract/chat.h"
#include "text/tokenizer.h"

namespace fastqps::text {

// A text, and the special tokens in it. In the text itself none is looked for.
struct RenderedChat {
  std::string text;
  std::vector<FixedToken> tokens;
};

struct Conversation {
  std::span<const ChatMessage> messages;
  ChatMode mode = ChatMode::kGenerate;
  std::string_view variables;  // a JSON object; empty: none
};

// The keys of a conversation's gaps to `keys`, as table.py has them. variant: see ChatTable::flags.
void chat_keys(const Conversation& chat, u32 variant, std::vector<u32>& keys);

// Immutable, for all threads.
class ChatTemplate {
 public:
  explicit ChatTemplate(ChatTable table);

  // Renders a conversation of one message at least. False: it is not in the table, or too long for it: a template may
  // repeat a content as often as it likes.
  bool render(const Conversation& chat, RenderedChat& out) const;

 private:
  bool asks(const ChatMessage& message) const;
  bool blank(std::string_view content) const;
  bool variant(std::string_view variables, u32* number) const;
  std::string_view strip(std::string_view text, u32 begin, u32 end) const;
  void put(const ChatPiece& piece, std::string_view system, RenderedChat& out) const;

  ChatTable table_;
  std::unordered_map<u32, u32> places_;
};

}  // namespace fastqps::text
