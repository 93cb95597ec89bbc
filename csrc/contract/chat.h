// Conversations, and what a model's card holds of its chat template: fastqps/models/chat/table.py explains it.
#pragma once
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "contract/types.h"

namespace fastqps {

// In the order of ROLES in fastqps/models/chat/conversation.py.
enum class ChatRole : u8 { kNone, kSystem, kUser, kAssistant };
inline constexpr std::string_view kChatRoles[] = {"", "system", "user", "assistant"};

// How a conversation ends: with what an answer begins with, behind its last message, or within that message.
enum class ChatMode : u8 { kGenerate, kClosed, kContinue };
inline constexpr std::string_view kChatModes[] = {"generate", "closed", "continue"};

struct ChatMessage {
  ChatRole role = ChatRole::kNone;
  std::string_view content;
};

inline constexpr u32 kChatMessagesMax = 1024;

// kNone: there is no such role.
constexpr ChatRole chat_role(std::string_view name) {
  if (name == "developer") return ChatRole::kSystem;
  for (u8 i = 1; i < std::size(kChatRoles); i++)
    if (name == kChatRoles[i]) return ChatRole(i);
  return ChatRole::kNone;
}

struct ChatPart {
  std::string kind, text;
  u32 id = 0, before = 0, after = 0;

  static constexpr auto kFields =
      std::tuple{std::pair{"kind", &ChatPart::kind}, std::pair{"text", &ChatPart::text}, std::pair{"id", &ChatPart::id},
                 std::pair{"before", &ChatPart::before}, std::pair{"after", &ChatPart::after}};
};

struct ChatPiece {
  std::vector<ChatPart> parts;
  u32 end = 0, begin = 0;

  static constexpr auto kFields = std::tuple{std::pair{"parts", &ChatPiece::parts}, std::pair{"end", &ChatPiece::end},
                                             std::pair{"begin", &ChatPiece::begin}};
};

struct ChatTable {
  std::vector<ChatPiece> pieces;
  std::vector<std::pair<u32, u32>> gaps;
  std::vector<std::pair<std::string, bool>> flags;
  std::vector<std::string> variables;
  std::vector<std::pair<std::string, std::string>> questions;
  std::vector<std::string> strips;

  static constexpr auto kFields =
      std::tuple{std::pair{"pieces", &ChatTable::pieces},       std::pair{"gaps", &ChatTable::gaps},
                 std::pair{"flags", &ChatTable::flags},         std::pair{"variables", &ChatTable::variables},
                 std::pair{"questions", &ChatTable::questions}, std::pair{"strips", &ChatTable::strips}};
};

struct ChatCard {
  std::optional<ChatTable> table;

  static constexpr auto kFields = std::make_tuple(std::pair{"table", &ChatCard::table});
  static constexpr std::string_view kUnread[] = {"template", "names"};  // of the slow tokenizers
};

}  // namespace fastqps
