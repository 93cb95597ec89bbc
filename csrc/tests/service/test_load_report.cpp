// Load reports: their bytes, which answers carry them, and the stream of them.
#include <limits>
#include <memory>
#include <vector>

#include "contract/wire.h"
#include "tests/in_time.h"
#include "tests/transport/transport_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr char kTrailer[] = "endpoint-load-metrics-bin";
constexpr char kStream[] = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics";

std::string encoded(const Load& load) {
  u8 bytes[kLoadReportBytes];
  const u32 n = write_load_report(load, bytes);
  CHECK(n <= kLoadReportBytes);
  return std::string(reinterpret_cast<char*>(bytes), n);
}

// The field of a message whose fields are all fixed64 or length-delimited, as a double; -1: it is not there.
double number(const std::string& message, u32 field) {
  WireReader in(message);
  while (!in.done()) {
    u32 tag;
    CHECK(in.tag(&tag));
    const char* at = in.at();
    CHECK(in.skip(tag, kWireDepthMax));
    double value;
    std::memcpy(&value, at, sizeof value);
    if (tag == fixed64_tag(field)) return value;
  }
  return -1;
}

struct Reported {
  LoadLine line{};
};
// A door beside a supervisor that has said this, or nothing yet: 0.
struct Reporting : Reported, Fixture {
  explicit Reporting(bool in_trailers, double utilization = 0, const Limits& limits = {})
      : Fixture(limits, {&line, in_trailers}) {
    if (utilization) say(utilization);
  }
  void say(double utilization) {
    line.utilization = utilization;
    line.requests_per_second = 1000;
    line.updated_ns = now_ns();
  }
};

size_t with_report(const Client& client) {
  size_t n = 0;
  for (const auto& [stream, answer] : client.answers) n += answer.fields.count(kTrailer);
  return n;
}

// A Duration of so many milliseconds as report_interval.
std::string interval(u32 ms) {
  u8 bytes[32];
  WireWriter out(bytes);
  const u64 seconds = ms / 1000, nanos = u64(ms % 1000) * 1'000'000;
  out.head(1, scalar_size(seconds) + scalar_size(nanos));
  out.scalar(1, seconds), out.scalar(2, nanos);
  return framed({reinterpret_cast<char*>(bytes), size_t(out.end() - bytes)});
}

}  // namespace

TEST(numbers_that_balancers_cannot_use_are_never_said) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::string idle = encoded({});
  CHECK_EQ(number(idle, 9), 0.001);
  CHECK_EQ(number(idle, 6), 0.001);
  CHECK_EQ(number(idle, 1), -1.0);
  const std::string broken = encoded({nan, nan, 7, -5, -inf, inf, nan, -1});
  CHECK_EQ(number(broken, 9), 0.001);
  CHECK_EQ(number(broken, 6), 0.001);
  CHECK_EQ(number(broken, 7), -1.0);
  CHECK_EQ(number(broken, 2), 1.0);
  const std::string busy = encoded({1.5, 0.7, 0.3, 12345.5, 2.5, 0.25, 1e9, 1e9});
  CHECK_EQ(number(busy, 9), 1.5);
  CHECK_EQ(number(busy, 6), 12345.5);
  CHECK_EQ(number(busy, 7), 2.5);
}

TEST(without_being_asked_no_answer_carries_a_report) {
  Reporting fixture(false, 0.5);
  Client client(fixture.door);
  client.ask("/test.Service/Echo", framed("x"));
  CHECK_EQ(client.answers[1].code(), std::string("0"));
  CHECK_EQ(with_report(client), size_t(0));
}

TEST(one_answer_of_a_connection_carries_it_in_a_tenth_of_a_second) {
  Reporting fixture(true, 0.5);
  Client first(fixture.door), second(fixture.door);
  const u64 begin = now_ns();
  for (int i = 0; i < 20; i++) first.call("/test.Service/Echo", framed("x")), first.run();
  second.ask("/test.Service/Chunks", framed("x"));
  const size_t periods = (now_ns() - begin) / LoadReports::kPeriodNs + 1;
  CHECK(with_report(first) >= 1 && with_report(first) <= periods);
  CHECK_EQ(with_report(second), size_t(1));
  // Binary headers have no padding on the wire.
  const std::string& said = first.answers[1].fields[kTrailer];
  CHECK(!said.empty() && said.back() != '=');
  fixture.say(0.9);
  first.run_for(LoadReports::kPeriodNs + 20 * kMillisecond);
  StreamAnswer& later = first.ask("/test.Service/Echo", framed("x"));
  CHECK(later.fields.count(kTrailer) && later.fields[kTrailer] != said);
}

TEST(a_refusal_carries_it_but_health_and_unknown_methods_do_not) {
  Reporting fixture(true, 0.5);
  Client client(fixture.door);
  client.call("/grpc.health.v1.Health/Check", framed(""));
  client.ask("/test.Service/Nothing", framed("x"));
  CHECK_EQ(with_report(client), size_t(0));
  StreamAnswer& refused = client.ask("/test.Service/Later", framed("x"));
  fixture.service.finish(fixture.service.waiting.at(0), {.code = StatusCode::kResourceExhausted, .message = "full"});
  client.run();
  CHECK_EQ(refused.header_blocks, 1);
  CHECK_EQ(refused.fields.count(kTrailer), size_t(1));
}

TEST(a_load_that_is_not_known_is_not_said) {
  Reporting fixture(true, 0);
  Client client(fixture.door);
  const i32 stream = client.call(kStream, interval(100));
  client.ask("/test.Service/Echo", framed("x"));
  CHECK_EQ(with_report(client), size_t(0));
  CHECK_EQ(client.answers[stream].data, std::string());
  fixture.say(0.5);
  client.run_until([&] { return !client.answers[stream].data.empty(); });
  fixture.line.updated_ns = now_ns() - 6 * kSecond;  // the supervisor hangs
  client.run_for(LoadReports::kPeriodNs + 20 * kMillisecond);
  const size_t before = client.answers[stream].data.size();
  client.run_for(2 * LoadReports::kPeriodNs);
  CHECK_EQ(client.answers[stream].data.size(), before);
}

TEST(a_stream_gets_a_report_at_once_and_in_each_interval) {
  Reporting fixture(false, 0.5);
  Client client(fixture.door);
  const i32 often = client.call(kStream, interval(1)), unsaid = client.call(kStream, framed("")),
            rarely = client.call(kStream, interval(3'600'000));
  client.run();
  const size_t one = client.answers[rarely].data.size();
  CHECK(one > 5);
  const std::string first = client.answers[rarely].data.substr(5);
  CHECK_EQ(number(first, 9), 0.5);
  const u64 begin = now_ns();
  client.run_until(
      [&] { return client.answers[often].data.size() >= 3 * one && client.answers[unsaid].data.size() >= 3 * one; });
  const size_t periods = (now_ns() - begin) / LoadReports::kPeriodNs + 2;
  for (const i32 stream : {often, unsaid}) CHECK(client.answers[stream].data.size() <= periods * one);
  CHECK_EQ(client.answers[rarely].data.size(), one);
  client.reset(often), client.reset(unsaid);
  client.run_for(LoadReports::kPeriodNs + 20 * kMillisecond);
  CHECK(fixture.door.grpc.loads.due_ns() > now_ns() + kSecond);
}

TEST(bad_requests_are_refused) {
  Reporting fixture(false, 0);
  Client client(fixture.door);
  CHECK_EQ(client.ask(kStream, framed("\x0a\x05zz")).code(), std::string("3"));
}

TEST(one_connection_has_few_streams_and_none_keeps_the_others_out) {
  Reporting fixture(false, 0, {.reports = {4, 16}});
  std::vector<std::unique_ptr<Client>> clients;
  const auto open = [&](Client& client) { return client.ask(kStream, interval(60'000)); };
  for (int i = 0; i < 3; i++) {
    Client& greedy = *clients.emplace_back(std::make_unique<Client>(fixture.door));
    for (int k = 0; k < 4; k++) CHECK_EQ(open(greedy).code(), std::string("none"));
    const auto refused = open(greedy);
    CHECK_EQ(refused.code(), std::string("8"));
    CHECK_EQ(refused.fields.at("grpc-message"),
             std::string("this connection has 4 streams of load reports open, and may have no more"));
  }
  for (int i = 0; i < 4; i++) {  // the last quarter
    Client& honest = *clients.emplace_back(std::make_unique<Client>(fixture.door));
    CHECK_EQ(open(honest).code(), std::string("none"));
    CHECK_EQ(open(honest).code(), std::string("8"));
  }
  Client late(fixture.door);
  const auto refused = open(late);
  CHECK_EQ(refused.code(), std::string("8"));
  CHECK_EQ(refused.fields.at("grpc-message"),
           std::string("this front door has 16 streams of load reports open, of at most 16"));
  clients.erase(clients.begin());  // what ends makes room
  fixture.door.turn();
  CHECK_EQ(open(late).code(), std::string("none"));
}

TEST(a_retiring_connection_does_not_wait_for_its_stream) {
  Reporting fixture(false, 0.5, {.settings = {.max_connection_age_ns = 50 * kMillisecond}});
  const u64 came = fixture.door.net.turn.ns;
  Client client(fixture.door);
  StreamAnswer& stream = client.ask(kStream, interval(60'000));
  ends_between(fixture.door, came + fixture.limits.settings.max_connection_age_ns / 10 * 9,
               fixture.door.net.turn.ns + fixture.limits.settings.max_connection_age_ns / 10 * 11, [&] {
                 client.turn();
                 return client.eof;
               });
  CHECK_EQ(stream.code(), std::string("14"));
}

TEST(without_a_source_there_is_no_such_method) {
  Fixture fixture;
  Client client(fixture.door);
  CHECK_EQ(client.ask(kStream, framed("")).code(), std::string("12"));
}
