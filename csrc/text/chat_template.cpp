#include "text/chat_template.h"

#include <simdjson.h>

#include <algorithm>
#include <ctime>

#include "contract/strip.h"

namespace fastqps::text {
namespace {

constexpr size_t kRenderedBytesMax = 16 << 20;
constexpr size_t kTimeBytes = 1024;  // 12 times the longest form: see FORM_MAX in fastqps/models/chat/child.py

void put_time(const std::string& format, std::string& out) {
  const std::time_t now = std::time(nullptr);
  std::tm local;
  char text[kTimeBytes];
  if (localtime_r(&now, &local)) out.append(text, std::strftime(text, sizeof text, format.c_str(), &local));
}

}  // namespace

void chat_keys(const Conversation& chat, u32 variant, std::vector<u32>& keys) {
  const bool system = chat.messages[0].role == ChatRole::kSystem;
  const auto body = chat.messages.subspan(system);
  const size_t n = body.size();
  size_t users = n;  // one above the last user's message
  while (users > 0 && body[users - 1].role != ChatRole::kUser) users--;
  const auto zone = [&](size_t i) { return i + 1 < users ? 0u : i + 1 == users ? 1u : 2u; };
  keys.clear();
  for (size_t i = 0; i <= n; i++) {
    const u32 before = i ? u32(body[i - 1].role) : 0, behind = i == n ? 4 + u32(chat.mode) : u32(body[i].role);
    const u32 zones = (i ? zone(i - 1) : 0) << 4 | (i == n ? 0 : zone(i)) << 2;
    keys.push_back(variant << 12 | u32(system) << 11 | before << 9 | behind << 6 | zones | u32(i == 1) << 1 |
                   u32(i + 1 == n));
  }
}

ChatTemplate::ChatTemplate(ChatTable table)
    : table_(std::move(table)), places_(table_.gaps.begin(), table_.gaps.end()) {}

bool ChatTemplate::render(const Conversation& chat, RenderedChat& out) const {
  u32 number;
  const bool open_end = chat.mode == ChatMode::kContinue && blank(chat.messages.back().content);
  if (open_end || !variant(chat.variables, &number)) return false;
  for (const ChatMessage& message : chat.messages)
    if (asks(message)) return false;
  thread_local std::vector<u32> keys;
  chat_keys(chat, number, keys);
  for (u32& key : keys) {
    const auto found = places_.find(key);
    if (found == places_.end()) return false;
    key = found->second;
  }
  const bool system = chat.messages[0].role == ChatRole::kSystem;
  out.text.clear();
  out.tokens.clear();
  for (size_t i = 0; i < keys.size(); i++) {
    if (out.text.size() + out.tokens.size() * sizeof(FixedToken) > kRenderedBytesMax) return false;
    put(table_.pieces[keys[i]], system ? chat.messages[0].content : std::string_view(), out);
    if (i + 1 == keys.size()) break;
    const std::string_view content = chat.messages[i + system].content;
    out.text += strip(content, table_.pieces[keys[i]].begin, table_.pieces[keys[i + 1]].end);
  }
  return true;
}

bool ChatTemplate::asks(const ChatMessage& message) const {
  for (const auto& [role, text] : table_.questions)
    if (role == kChatRoles[u8(message.role)] &&
        (text.empty() ? blank(message.content) : message.content.find(text) != std::string_view::npos))
      return true;
  return false;
}

bool ChatTemplate::blank(std::string_view content) const { return strip_begin(content, kPythonSpaces).empty(); }

// Variables that the template does not look at change nothing.
bool ChatTemplate::variant(std::string_view variables, u32* number) const {
  *number = 0;
  if (variables.empty()) return true;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(variables.data(), variables.size()).get(object)) return false;
  u32 known = 0;
  for (const auto [name, value] : object) {
    if (std::ranges::find(table_.variables, name) == table_.variables.end()) continue;
    bool set;
    if (value.get(set) || known++) return false;
    const auto flag = std::ranges::find(table_.flags, std::pair(std::string(name), set));
    if (flag == table_.flags.end()) return false;
    *number = u32(flag - table_.flags.begin()) + 1;
  }
  return true;
}

std::string_view ChatTemplate::strip(std::string_view text, u32 begin, u32 end) const {
  return strip_end(strip_begin(text, table_.strips[begin]), table_.strips[end]);
}

void ChatTemplate::put(const ChatPiece& piece, std::string_view system, RenderedChat& out) const {
  for (const ChatPart& part : piece.parts) {
    if (part.kind == "token") {
      out.tokens.push_back({out.text.size(), part.id, part.before != 0, part.after != 0});
    } else if (part.kind == "system") {
      out.text += strip(system, part.before, part.after);
    } else if (part.kind == "time") {
      put_time(part.text, out.text);
    } else {
      out.text += part.text;
    }
  }
}

}  // namespace fastqps::text
