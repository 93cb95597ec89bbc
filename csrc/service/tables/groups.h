// Calls of many items: their slots, the number of unanswered items, the answers that wait for others, and whether the
// call is held.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/response_view.h"
#include "contract/types.h"
#include "core/layout.h"
#include "service/tables/door.h"
#include "transport/rpc/service.h"

namespace fastqps::service {

// The answers of a call's items until it has all of them. They are copies, because a slot is free when its answer has
// been read.
class KeptAnswers {
 public:
  void expect(u32 items) { items_ = items; }
  // Copies the answer and everything that it refers to.
  void keep(u32 index, const ResponseView& answer);
  std::span<const ResponseView> all() const { return views_; }
  // The memory that they take, and that one more takes beside its copy.
  size_t bytes() const { return bytes_; }
  size_t missing_bytes() const { return (items_ - views_.size()) * sizeof(ResponseView); }

 private:
  static constexpr size_t kFirstBlock = 4 << 10, kLargestBlock = 256 << 10;

  template <class T>
  std::span<const T> copy(std::span<const T> values);
  std::string_view copy(std::string_view text);
  template <class T>
  std::span<const T> copy_named(std::span<const T> values, std::string_view T::*text);
  template <class T>
  const T* copy(const T* value);
  u8* take(size_t bytes);
  void make_views();

  u32 items_ = 0;
  std::vector<ResponseView> views_;
  std::vector<std::unique_ptr<u8[]>> blocks_;
  u8 *free_ = nullptr, *end_ = nullptr;  // of the newest block
  size_t next_block_ = kFirstBlock, bytes_ = 0;
};

class AnswerWriter;

// How the items of a call are answered.
enum class GroupKind : u8 {
  kTogether,  // by one message, when all are
  kEach,      // by a message each, as they finish
  kRows,      // the same, but those of a turn share messages
  kInOrder,   // by a message each, in the order of the requests
  kGathered,  // items of a stream, by one message, when the client has half-closed and all are
  kRequests,  // each message of the stream has items, which are a group of their own
};

// What opens a group.
struct GroupStart {
  GroupKind kind;
  Rpc method;
  const AnswerWriter* writer;
  u32 items = 0;                  // kTogether
  std::string_view context = {};  // AnsweredCall::context
  bool in_pieces = false;         // kTogether: each item, a generation, is answered as it comes
  u32 candidates = 1;             // items of one input, which stand side by side
};

// In a call's user word: the call is a group.
inline constexpr u64 kGroupUser = u64(1) << 32;

// The failure of a call whose answer has no place for that of an item.
struct GroupFailure {
  StatusCode code = StatusCode::kOk;
  i32 retry_after_ms = -1;
  std::string message, field;
  u32 index = 0;  // of the item
  FieldFault fault = FieldFault::kValue;
};

// The message that the rows of a turn are written to. It belongs to the call until it is committed.
struct RowMessage {
  u8* begin = nullptr;  // nullptr: there is none
  u8 *at = nullptr, *end = nullptr;
};

// Answers to a stream that go out in the order of its requests.
struct OrderedAnswers {
  u32 sent = 0;                        // how many
  bool blocked = false;                // the next one waits until the client has read more
  size_t waiting_bytes = 0;            // of all that wait
  std::map<u32, std::string> waiting;  // written answers that wait for one before, by their places

  void keep(u32 place, std::string message) {
    waiting_bytes += message.size();
    waiting[place] = std::move(message);
  }
  // The next one, which must be waiting.
  std::string take() {
    const auto next = waiting.find(sent++);
    std::string message = std::move(next->second);
    waiting.erase(next);
    waiting_bytes -= message.size();
    return message;
  }
};

struct Group {
  transport::CallId call;
  transport::ConnectionId connection;
  GroupKind kind = GroupKind::kTogether;
  Rpc method = kOther;
  const AnswerWriter* writer = nullptr;
  u64 received_ns = 0;
  u64 active_ns = 0;    // a stream's newest message or answer
  u64 answered_ns = 0;  // the newest answer to an item that has not failed; of a stream to any of its requests
  u32 first = ~u32(0);  // head of the list of its slots
  u32 slots = 0;        // how many
  u32 candidates = 1;
  u32 items = 0;       // how many its message has, or its stream has had; kRequests: requests that have a place
  u32 taken = 0;       // and how many of them have been read
  u32 unanswered = 0;  // accepted items without an answer, with or without a slot
  u32 tokenized = 0;   // items whose tokens are counted
  u64 tokens = 0;      // and how many they have
  u32 route = 0;       // of its newest item, for the counters
  const char* structure_field = nullptr;  // GenerateOptions::structure_field, of all items
  bool open = false, half_closed = false, gone = false, held = false, holds_connection = false;
  bool closing = false;  // a stream of a draining server: no further messages are read
  bool in_pieces = false;
  bool failing = false;  // one of its items has failed: the others are about to be dropped
  std::string context;
  KeptAnswers kept;        // kTogether, of more than one item, and kGathered
  CallUsage usage;         // of the items that were answered in pieces
  OrderedAnswers ordered;  // kInOrder, kRequests
  RowMessage rows;         // kRows
  u32 reading = ~u32(0);   // kRequests: the group of a message of which only a part was taken
  u32 stream = ~u32(0);    // of a request of a stream: the stream's group
  u32 place = ~u32(0);     // of the same: in the order of answers; none: it goes out piece by piece
  GroupFailure failure;

  // The memory of answers that wait for others of the call.
  size_t kept_bytes() const { return kept.bytes() + ordered.waiting_bytes; }
  // Items that count against the limit of a stream: those without an answer, or whose answer waits.
  u32 in_flight() const {
    return kind == GroupKind::kInOrder ? items - ordered.sent : unanswered + u32(ordered.waiting.size());
  }
  double mean_tokens() const { return tokenized ? double(tokens) / tokenized : 0; }
  // Every answer of a stream has been sent, of the messages so far.
  bool all_sent() const { return !unanswered && !ordered.blocked; }
  // Its call has ended and its slots are free, so the group can be reused.
  bool done() const { return !slots && (!open || gone); }
};

class Groups {
 public:
  static constexpr u32 kNone = ~u32(0);

  // kept_bytes_max: as PredictOptions::kept_answer_bytes.
  Groups(const Attachment& attachment, u32 slots, u64 kept_bytes_max)
      : attachment_(attachment), kept_bytes_max_(kept_bytes_max), links_(slots) {}

  Group& operator[](u32 g) { return groups_[g]; }
  const Group& operator[](u32 g) const { return groups_[g]; }
  // Open or not; at most as many as the transport has calls, and requests of streams that have unanswered items.
  u32 size() const { return u32(groups_.size()); }
  u32 open(transport::CallId call, const GroupStart& start, const transport::CallInfo& info);
  // Frees a group whose call has ended, with its last slot.
  void free_if_done(u32 g);

  // An answer that waits for others of its call; as written, for those of its stream before it.
  void keep(u32 g, u32 index, const ResponseView& answer);
  void keep(u32 g, u32 place, std::string message);
  // The next one of a stream, which must be waiting.
  std::string take(u32 g);
  u64 kept_bytes() const { return kept_bytes_; }
  u64 kept_bytes_max() const { return kept_bytes_max_; }
  // Whether there is memory for one more. A call may have as much as is still free, so those with little get on beside
  // those that take all they can.
  bool may_keep(u32 g) const {
    const u64 of_call = groups_[g].kept_bytes() + (owner(g) == g ? 0 : groups_[owner(g)].kept_bytes());
    return kept_bytes_ + of_call + groups_[g].kept.missing_bytes() <= kept_bytes_max_;
  }

  // How many items of the group's call have a slot, and when one of them was answered last.
  u32 open_items(u32 g) const { return groups_[owner(g)].slots; }
  u64 answered_ns(u32 g) const { return groups_[owner(g)].answered_ns; }
  void note_answer(u32 g, u64 now_ns) { groups_[owner(g)].answered_ns = now_ns; }
  void count_tokens(u32 g, u32 tokens) { groups_[g].tokens += tokens, groups_[g].tokenized++; }
  // Whether its call is a stream: the client's deadline is then that of all its requests together.
  bool streams(u32 g) const { return owner(g) != g || groups_[g].kind != GroupKind::kTogether; }
  // When the time of an item ends that names no timeout, and is behind others of its call: an answer to one of them
  // begins it anew.
  u64 due_ns(u32 g, u64 received_ns, u64 timeout_ns) const {
    return std::max(received_ns, answered_ns(g)) + timeout_ns;
  }

  // A slot of a request is in the list of its stream. unlink() frees the groups that it ends.
  void link(u32 g, u32 slot, u32 route);
  void unlink(u32 g, u32 slot);
  u32 first(u32 g) const { return groups_[owner(g)].first; }  // slot of its call, or kNone
  u32 next(u32 slot) const { return links_[slot].next; }      // of the same group, or kNone

  // The next answer of a stream waits until its client has read more.
  void block(u32 g) {
    if (!std::exchange(groups_[g].ordered.blocked, true)) blocked_.push_back(g);
  }
  // Calls go(g) for each such stream for which may_go(group) returns true.
  template <class MayGo, class Go>
  void unblock(MayGo may_go, Go go) {
    for (size_t i = blocked_.size(); i-- > 0;) {
      const u32 g = blocked_[i];
      if (!may_go(groups_[g])) continue;
      blocked_[i] = blocked_.back();
      blocked_.pop_back();
      groups_[g].ordered.blocked = false;
      go(g);
    }
  }
  // Calls drop(g) for each group with a failed item, once its message has been read.
  void fail(u32 g) {
    if (!std::exchange(groups_[g].failing, true)) failing_.push_back(g);
  }
  template <class Drop>
  void drop_failing(Drop drop) {
    for (size_t i = failing_.size(); i-- > 0;) {
      const u32 g = failing_[i];
      if (groups_[g].taken < groups_[g].items) continue;
      failing_[i] = failing_.back();
      failing_.pop_back();
      groups_[g].failing = false;
      drop(g);
    }
  }
  // Returns false if it is held already.
  bool hold(u32 g);
  bool any_held() const { return !held_.empty(); }
  // Releases each held group for which may_go(group) returns true, and calls go(call).
  template <class MayGo, class Go>
  void resume(MayGo may_go, Go go) {
    for (size_t i = held_.size(); i-- > 0;) {
      Group& group = groups_[held_[i]];
      if (!may_go(group)) continue;
      group.held = false;
      held_[i] = held_.back();
      held_.pop_back();
      go(group.call);
    }
  }

 private:
  void free(u32 g);
  u32 owner(u32 g) const { return groups_[g].stream == kNone ? g : groups_[g].stream; }

  struct Link {
    u32 next = kNone, previous = kNone;
  };
  const Attachment& attachment_;
  const u64 kept_bytes_max_;
  u64 kept_bytes_ = 0;  // of all groups
  std::vector<Group> groups_;
  std::vector<u32> free_, held_, blocked_, failing_;
  std::vector<Link> links_;  // by slot
};

}  // namespace fastqps::service
