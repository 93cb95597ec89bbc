// Whose calls are traced, what their records say, and that nobody waits where they find no room.
#include <memory>
#include <set>

#include "tests/transport/http1_client.h"
#include "tests/transport/transport_fixture.h"
#include "transport/rpc/trace_context.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736", kParentId[] = "00f067aa0ba902b7";
const std::string kSampled = std::string("00-") + kTraceId + "-" + kParentId + "-01";
const std::string kNotSampled = std::string("00-") + kTraceId + "-" + kParentId + "-00";
constexpr u64 kAlways = ~u64(0);

std::string hex(const u8* bytes, size_t n) {
  std::string out;
  char digits[3];
  for (size_t i = 0; i < n; i++) out += (std::snprintf(digits, sizeof digits, "%02x", bytes[i]), digits);
  return out;
}

// The segment's ring without a segment, read as the supervisor reads it.
struct Traced {
  std::unique_ptr<TraceRing> ring = std::make_unique<TraceRing>();
  Fixture fixture;
  explicit Traced(u64 threshold = 0, bool spans = true, u64 line_threshold = 0)
      : fixture({}, {}, {ring.get(), threshold, false, spans, line_threshold}) {}
  std::vector<TraceRecord> take() {
    std::vector<TraceRecord> out;
    for (u64 at = ring->head; at != ring->tail; at++) out.push_back(ring->record[at % kTraceEntries]);
    ring->head = ring->tail.load();
    return out;
  }
};

i32 echo(Client& client, const Fields& extra) { return client.call("/test.Service/Echo", framed("x"), true, extra); }

}  // namespace

TEST(traceparents_as_the_recommendation_reads_them) {
  struct {
    std::string value;
    bool good, sampled;
  } const cases[] = {
      {kSampled, true, true},
      {kNotSampled, true, false},
      {std::string("00-") + kTraceId + "-" + kParentId + "-ff", true, true},
      {std::string("cc-") + kTraceId + "-" + kParentId + "-01-what-the-future-brings", true, true},
      {std::string("cc-") + kTraceId + "-" + kParentId + "-01", true, true},
      {std::string("cc-") + kTraceId + "-" + kParentId + "-01.what", false, false},
      {std::string("00-") + kTraceId + "-" + kParentId + "-01-more", false, false},
      {std::string("ff-") + kTraceId + "-" + kParentId + "-01", false, false},
      {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false, false},
      {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01", false, false},
      {"0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, false},
      {"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, false},
      {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0", false, false},
      {"", false, false},
  };
  for (const auto& [value, good, sampled] : cases) {
    TraceContext context{};
    CHECK_EQ(parse_traceparent(value, &context), good);
    if (!good) continue;
    CHECK_EQ(context.sampled, sampled);
    CHECK_EQ(hex(context.trace_id, 16), std::string(kTraceId));
    CHECK_EQ(hex(context.parent_id, 8), std::string(kParentId));
  }
}

TEST(every_single_wrong_character_is_found) {
  TraceContext context;
  for (size_t i = 0; i < kSampled.size(); i++)
    for (int c = 0; c < 256; c++) {
      std::string value = kSampled;
      value[i] = char(c);
      const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      const bool dash = i == 2 || i == 35 || i == 52, version = i < 2;
      // Of a version that is not ours anything of this shape is good, but for ff.
      const bool good = dash ? c == '-' : digit && !(version && value.substr(0, 2) == "ff");
      CHECK_EQ(parse_traceparent(value, &context), good);
    }
}

TEST(tracestate_is_kept_in_whole_members) {
  char out[32];
  const auto kept = [&](std::initializer_list<std::string> headers) {
    u32 bytes = 0;
    for (const std::string& header : headers) bytes = append_tracestate(header, out, bytes, sizeof out);
    return std::string(out, bytes);
  };
  CHECK_EQ(kept({"a=1,b=2"}), std::string("a=1,b=2"));
  CHECK_EQ(kept({" a=1 ,,\tb=2 ", "c=3"}), std::string("a=1,b=2,c=3"));
  CHECK_EQ(kept({"novalue,=x,y=,k=\x01,ok=1"}), std::string("ok=1"));
  CHECK_EQ(kept({std::string(30, 'k') + "=1"}), std::string(30, 'k') + "=1");
  CHECK_EQ(kept({"a=1," + std::string(27, 'k') + "=1,b=2"}), std::string("a=1"));
  CHECK_EQ(kept({std::string(500, 'k') + "=1"}), std::string());
}

TEST(the_clients_decision_holds) {
  Traced traced(kAlways);
  Client client(traced.fixture.door);
  echo(client, {{"traceparent", kSampled}, {"tracestate", "vendor=1"}});
  client.run();
  const auto records = traced.take();
  CHECK_EQ(records.size(), size_t(1));
  const TraceRecord& record = records[0];
  CHECK_EQ(hex(record.trace_id, 16), std::string(kTraceId));
  CHECK_EQ(hex(record.parent_id, 8), std::string(kParentId));
  CHECK(hex(record.span_id, 8) != hex(record.parent_id, 8));
  CHECK_EQ(std::string(record.state, record.state_bytes), std::string("vendor=1"));
  CHECK_EQ(int(record.code), 0);
  CHECK_EQ(int(record.method), int(kOther));
  CHECK(record.at_ns[0] && record.at_ns[kStages] >= record.at_ns[0]);
  echo(client, {{"traceparent", kNotSampled}});
  echo(client, {{"tracestate", "vendor=1"}, {"traceparent", kNotSampled}});
  client.run();
  CHECK(traced.take().empty());
}

TEST(lines_of_the_access_log_do_not_follow_traces) {
  const struct {
    bool spans;
    u64 line_threshold;
    Fields headers;
    int uses;  // 0: no record
  } cases[] = {
      {true, 0, {{"traceparent", kSampled}}, kTraceSpans},
      {true, kAlways, {{"traceparent", kSampled}}, kTraceSpans | kTraceLine},
      {true, kAlways, {{"traceparent", kNotSampled}}, kTraceLine},
      {false, kAlways, {{"traceparent", kSampled}, {"tracestate", "vendor=1"}}, kTraceLine},
      {false, kAlways, {}, kTraceLine},
      {false, 0, {{"traceparent", kSampled}}, 0},
  };
  for (const auto& row : cases) {
    Traced traced(0, row.spans, row.line_threshold);
    Client client(traced.fixture.door);
    echo(client, row.headers);
    client.run();
    const auto records = traced.take();
    CHECK_EQ(records.size(), size_t(row.uses != 0));
    for (const TraceRecord& record : records) {
      CHECK_EQ(int(record.uses), row.uses);
      const bool known = hex(record.trace_id, 16) == kTraceId;
      CHECK_EQ(known, (row.uses & kTraceSpans) != 0);
      CHECK_EQ(int(record.state_bytes), 0);
    }
  }
}

TEST(a_damaged_traceparent_is_none_and_its_state_is_not_ours) {
  Traced traced(kAlways);
  Client client(traced.fixture.door);
  echo(client, {{"traceparent", "nonsense"}, {"tracestate", "vendor=1"}});
  echo(client, {{"tracestate", "vendor=1"}});
  echo(client, {{"traceparent", kSampled}, {"traceparent", kSampled}, {"tracestate", "vendor=1"}});
  client.run();
  const auto records = traced.take();
  CHECK_EQ(records.size(), size_t(3));
  std::set<std::string> traces;
  for (const TraceRecord& record : records) {
    traces.insert(hex(record.trace_id, 16));
    CHECK_EQ(hex(record.parent_id, 8), std::string(16, '0'));
    CHECK_EQ(int(record.state_bytes), 0);
  }
  CHECK_EQ(traces.size(), size_t(3));
  CHECK_EQ(traces.count(kTraceId), size_t(0));
}

TEST(of_the_undecided_about_the_ratio_is_traced) {
  Traced traced(kAlways / 4);
  Client client(traced.fixture.door);
  size_t found = 0;
  for (int i = 0; i < 50; i++) {
    for (int k = 0; k < 40; k++) echo(client, {});
    client.run();
    found += traced.take().size();
  }
  CHECK(found > 400 && found < 600);  // 500, and 19.4 is one standard deviation
}

TEST(without_a_ratio_only_clients_decide_and_without_a_ring_nobody) {
  Traced traced(0);
  {
    Client client(traced.fixture.door);
    for (int i = 0; i < 100; i++) echo(client, {});
    client.run();
    CHECK(traced.take().empty());
    echo(client, {{"traceparent", kSampled}});
    client.run();
    CHECK_EQ(traced.take().size(), size_t(1));
  }
  Fixture off;
  Client client(off.door);
  echo(client, {{"traceparent", kSampled}, {"tracestate", "vendor=1"}});
  client.run();
  CHECK_EQ(client.answers[1].code(), std::string("0"));
  CHECK(!off.service.last_info.traced);
}

TEST(health_is_not_traced_and_unknown_methods_are_not) {
  Traced traced(kAlways);
  Client client(traced.fixture.door);
  client.call("/grpc.health.v1.Health/Check", framed(""), true, {{"traceparent", kSampled}});
  client.ask("/test.Service/Nothing", framed("x"), true, {{"traceparent", kSampled}});
  CHECK(traced.take().empty());
}

TEST(a_malformed_request_leaves_no_record) {
  Traced traced(kAlways);
  Client client(traced.fixture.door);
  const i32 stream = echo(client, {{"traceparent", kSampled}, {"connection", "close"}});
  const i32 large = echo(client, {{"traceparent", kSampled}, {"x", std::string(20'000, 'x')}});
  client.run();
  CHECK(client.answers[stream].reset);
  CHECK_EQ(client.answers[large].code(), std::string("8"));
  CHECK(traced.take().empty());
  CHECK_EQ(traced.ring->dropped_spans.load(), u64(0));
}

TEST(refused_requests_have_lines_of_the_access_log) {
  Traced traced(kAlways, true, kAlways);
  const auto refused = [&](StatusCode code) {
    const auto records = traced.take();
    CHECK_EQ(records.size(), size_t(1));
    CHECK_EQ(int(records[0].uses), int(kTraceLine));
    CHECK_EQ(int(records[0].code), int(code));
    CHECK_EQ(int(records[0].method), int(kOther));  // the fixture's methods are no protocol's
    CHECK(records[0].at_ns[kStages] >= records[0].at_ns[kReceive] && records[0].at_ns[kReceive] > 0);
  };
  const Fields sampled = {{"traceparent", kSampled}};
  Client client(traced.fixture.door);
  client.ask("/test.Service/Nothing", framed("x"), true, sampled);
  refused(StatusCode::kUnimplemented);
  echo(client, {{"traceparent", kSampled}, {"grpc-timeout", "x"}});
  client.run();
  refused(StatusCode::kInvalidArgument);
  echo(client, {{"traceparent", kSampled}, {"connection", "close"}});
  client.run();
  refused(StatusCode::kInvalidArgument);
  for (const auto& [request, code] : {std::pair{"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", StatusCode::kNotFound},
                                      std::pair{"GET / HTTP/1.1\r\n\r\n", StatusCode::kInvalidArgument},
                                      std::pair{"no request\r\n\r\n", StatusCode::kInvalidArgument}}) {
    Http1Client plain(traced.fixture.door);
    plain.response(request);
    refused(code);
  }
}

TEST(each_traced_call_ends_in_one_record_however_it_ends) {
  Traced traced(0);
  auto client = std::make_unique<Client>(traced.fixture.door);
  const Fields sampled = {{"traceparent", kSampled}};
  const i32 reset = client->call("/test.Service/Later", framed("x"), true, sampled);
  client->call("/test.Service/Later", framed("x"), true, sampled);
  client->call("/test.Service/Stream", framed("a") + framed("b"), true, sampled);
  client->call("/test.Service/Echo", framed("x") + framed("second"), true, sampled);
  client->run();
  auto records = traced.take();
  CHECK_EQ(records.size(), size_t(2));
  CHECK_EQ(int(records[0].code) + int(records[1].code), 13);  // OK, and INTERNAL for the second message
  client->reset(reset);
  client->run();
  records = traced.take();
  CHECK_EQ(records.size(), size_t(1));
  CHECK_EQ(int(records[0].code), 1);
  client.reset();
  for (int i = 0; i < 10; i++) traced.fixture.door.turn();
  records = traced.take();
  CHECK_EQ(records.size(), size_t(1));
  CHECK_EQ(int(records[0].code), 1);
}

TEST(a_full_ring_drops_and_counts_and_serves_on) {
  Traced traced(kAlways);
  Client client(traced.fixture.door);
  const u32 calls = 3 * kTraceEntries;
  for (u32 i = 0; i < calls; i++) echo(client, {});
  client.run();
  for (u32 i = 0; i < calls; i++) CHECK_EQ(client.answers[i32(2 * i + 1)].code(), std::string("0"));
  const size_t kept = traced.take().size();
  CHECK_EQ(kept, size_t(kTraceEntries));
  CHECK_EQ(u64(calls - kept), traced.ring->dropped_spans.load());
  echo(client, {});
  client.run();
  CHECK_EQ(traced.take().size(), size_t(1));
}
