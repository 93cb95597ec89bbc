// Serialized requests and batches, right and damaged: every view lies in the message, and the second pass over its
// repeated fields finds as many as the first.
#include <vector>

#include "contract/request_view.h"
#include "contract/utf8.h"
#include "contract/wire.h"
#include "tests/check.h"
#include "tests/fuzz/fuzz.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr size_t kItemsMax = 64;

bool within(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

std::string field(u32 tag, const std::string& value) {
  u8 head[16];
  WireWriter out(head);
  out.varint(tag);
  out.varint(value.size());
  return std::string(reinterpret_cast<char*>(head), size_t(out.end() - head)) + value;
}

std::string number(u32 tag, u64 value) {
  u8 head[32];
  WireWriter out(head);
  out.varint(tag);
  out.varint(value);
  return {reinterpret_cast<char*>(head), size_t(out.end() - head)};
}

std::string any_fields(fuzz::Random& random, int depth) {
  std::string out;
  for (u64 fields = random.below(8); fields; fields--) {
    const u32 id = u32(random.one_in(16) ? random.next() : 1 + random.below(13));
    switch (random.below(depth ? 5 : 4)) {
      case 0:
        out += number(varint_tag(id), random.one_in(2) ? random.below(300) : random.next());
        break;
      case 1:
        out += field(length_tag(id), random.bytes(200));
        break;
      case 2:
        out += number(fixed32_tag(id), 0) + random.bytes(4);
        break;
      case 3:
        out += number(wire_tag(id, WireType::kGroup), 1) + any_fields(random, 0);
        out += number(wire_tag(id, WireType::kEndGroup), 0);
        break;
      default:
        out += field(length_tag(id), any_fields(random, depth - 1));
    }
  }
  return out;
}

void check_item(std::string_view message) {
  RequestView view;
  if (parse_request(message, &view)) return;
  for (const std::string_view part :
       {view.model, view.text, view.pair_first, view.pair_second, view.prompt_name, view.tenant, view.group}) {
    CHECK(within(part, message));
    CHECK(text::valid_utf8(part));
  }
  std::vector<u32> ids(view.token_count);
  token_ids(view, ids.data());
  ReasonText reason;
  if (check_request(view, reason)) return;
  CHECK(view.generate.stop.count <= kStopStringsMax && view.generate.stop_ids.count <= IdList::kMax);
  CHECK(view.generate.suppress_ids.count <= IdList::kMax);
  std::string_view stops[kStopStringsMax];
  texts_of(view, &GenerateOptions::stop, stops);
  for (u32 i = 0; i < view.generate.stop.count; i++) CHECK(within(stops[i], message));
}

void run(fuzz::Random& random) {
  std::string message = any_fields(random, 3);
  if (random.one_in(2)) message = fuzz::mutated(random, std::move(message));
  const std::vector<char> exact(message.begin(), message.end());  // a byte behind its end is found
  const std::string_view bytes(exact.data(), exact.size());
  check_item(bytes);
  std::string_view items[kItemsMax];
  size_t count = 0;
  ReasonText reason;
  if (split_batch(bytes, items, &count, reason)) return;
  CHECK(count <= kItemsMax);
  for (size_t i = 0; i < count; i++) {
    CHECK(within(items[i], bytes));
    check_item(items[i]);
  }
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run_all(argc, argv, run); }
