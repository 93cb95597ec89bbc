// HTTP/1.1 connections that say anything, to a door whose service keeps a ledger: every call that it was told about
// ends once, nothing is left of any of them, and what comes back is HTTP.
#include <memory>

#include "tests/fuzz/fuzz.h"
#include "tests/transport/compressed.h"
#include "tests/transport/http1_client.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

const std::vector<std::string> kVerbs = {"GET", "POST", "HEAD", "OPTIONS", "PUT", "P", "PRI", "post", ""};
const std::vector<std::string> kTargets = {"/echo", "/later",        "/chunks", "/health", "/models/a%20b/versions/1?x",
                                           "/",     "http://a/echo", "*",       "/%",      "//"};
const std::vector<std::string> kVersions = {"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "http/1.1"};
const std::vector<std::string> kHeaders = {"Content-Length: 3",
                                           "Content-Length: 0",
                                           "Content-Length: 70000",
                                           "Transfer-Encoding: chunked",
                                           "Transfer-Encoding: gzip, chunked",
                                           "Expect: 100-continue",
                                           "Connection: close",
                                           "Connection: keep-alive",
                                           "Content-Encoding: gzip",
                                           "Authorization: Bearer a",
                                           "X-A: b\r\n c",
                                           "X-A : b",
                                           "Host: b",
                                           "Inference-Header-Content-Length: 2",
                                           "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"};
const std::vector<std::string> kBodies = {"",
                                          "abc",
                                          "3\r\nabc\r\n0\r\n\r\n",
                                          "3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n",
                                          "0\r\n\r\n",
                                          "ffffffffffffffff\r\n",
                                          "abcd"};
constexpr u64 kInputsOfDoor = 2000;

std::string request(fuzz::Random& random) {
  std::string out = random.of(kVerbs) + " " + random.of(kTargets) + " " + random.of(kVersions) + "\r\n";
  if (!random.one_in(16)) out += "Host: test\r\n";
  const u64 headers = random.one_in(64) ? 150 : random.below(4);
  for (u64 i = 0; i < headers; i++) out += random.of(kHeaders) + "\r\n";
  out += "\r\n";
  out += random.one_in(32) ? random.bytes(20'000) : random.of(kBodies);
  return out;
}

std::string good_request(fuzz::Random& random) {
  const std::string body = random.bytes(300);
  return random.one_in(2) ? post("/echo", fuzz::compressed(body, true, 6), "Content-Encoding: gzip\r\n")
                          : post(random.one_in(2) ? "/later" : "/chunks", body);
}

// What comes back begins as HTTP, whatever was said.
void check_said(const std::string& received) {
  constexpr std::string_view kBegin = "HTTP/1.1 ", kHttp2Settings = std::string_view("\0\0", 2);
  const std::string_view seen = std::string_view(received).substr(0, kBegin.size());
  CHECK(kBegin.starts_with(seen) || received.starts_with(kHttp2Settings));
}

void run(fuzz::Random& random) {
  static std::unique_ptr<Fixture> fixture;
  static u64 inputs = 0;
  if (!fixture) fixture = std::make_unique<Fixture>();
  std::string bytes;
  for (u64 count = 1 + random.below(4); count; count--)
    bytes += random.one_in(2) ? good_request(random) : request(random);
  if (random.one_in(2)) bytes = fuzz::mutated(random, std::move(bytes));
  {
    Http1Client client(fixture->door);
    std::string_view rest = bytes;
    for (u64 pieces = 1 + random.below(4); pieces; pieces--) {
      const size_t some = pieces == 1 ? rest.size() : random.below(rest.size() + 1);
      client.try_send(rest.substr(0, some));
      rest.remove_prefix(some);
      client.turn();
    }
    if (random.one_in(2)) {
      for (const CallId call : fixture->service.waiting) fixture->service.finish(call);
      fixture->service.waiting.clear();
    }
    if (random.one_in(4)) client.half_close();
    for (u64 turns = random.below(4); turns; turns--) client.turn();
    check_said(client.received);
  }
  fixture->door.turn();
  if (++inputs % kInputsOfDoor) return;
  const auto end = std::chrono::steady_clock::now() + test::kPatience;
  while (fixture->door.net.connections.open() || fixture->counters.reassembly_bytes) {
    CHECK(std::chrono::steady_clock::now() < end);
    fixture->door.turn();
  }
  fixture->check_clean();
  fixture.reset();
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run_all(argc, argv, run); }
