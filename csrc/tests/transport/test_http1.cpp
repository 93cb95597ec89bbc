// HTTP/1.1: requests in every form, responses in their order, and what is refused.
#include "tests/transport/http1_client.h"

using namespace fastqps;
using namespace fastqps::front;

namespace {

std::string chunked(std::string_view path, const std::vector<std::string>& chunks, std::string_view trailers = "") {
  std::string out =
      "POST " + std::string(path) + " HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& chunk : chunks) {
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", chunk.size());
    out += size + chunk + "\r\n";
  }
  return out + "0\r\n" + std::string(trailers) + "\r\n";
}

}  // namespace

TEST(a_body_is_a_message_and_a_message_a_response) {
  Fixture fixture;
  {
    Http1Client client(fixture.door);
    for (int i = 0; i < 3; i++) {  // over one connection
      const Response response = client.response(post("/echo", "{\"a\":1}"));
      CHECK_EQ(response.status, 200);
      CHECK_EQ(response.body, "{\"a\":1}");
      CHECK(response.has("Content-Type: application/json"));
      CHECK(response.has("Content-Length: 7"));
      CHECK(!response.has("Connection: close"));
    }
    CHECK_EQ(client.response(get("/echo")).body, "");
    CHECK_EQ(client.response(chunked("/echo", {"ab", "c", std::string(5000, 'x')})).body, "abc" + std::string(5000, 'x'));
    CHECK_EQ(client.response(chunked("/echo", {})).body, "");
    CHECK_EQ(client.response(chunked("/echo", {"a"}, "X-Trailer: 1\r\nContent-Type: b\r\n")).body, "a");
    CHECK_EQ(client.response(post("/models/a%20b/versions/1?x=%20", "m")).body, "m");
    CHECK_EQ(fixture.service.last_parameters[0], "a b");
    CHECK_EQ(fixture.service.last_parameters[1], "1");
    const Response streamed = client.response(post("/chunks", "ab"));
    CHECK_EQ(streamed.body, "ababababab");
  }
  fixture.check_clean();
}

TEST(responses_come_in_the_order_of_requests) {
  Fixture fixture;
  {
    Http1Client client(fixture.door);
    client.send(post("/later", "1") + post("/echo", "2") + post("/chunks", "3") + get("/echo") + post("/later", "5"));
    client.run();
    CHECK_EQ(client.received, "");  // the first is not answered
    CHECK_EQ(fixture.service.waiting.size(), size_t(2));
    fixture.service.say(fixture.service.waiting[1], "five");
    fixture.service.finish(fixture.service.waiting[1]);
    client.run();
    CHECK_EQ(client.received, "");
    fixture.service.say(fixture.service.waiting[0], "one");
    fixture.service.finish(fixture.service.waiting[0]);
    const std::vector<Response> found = client.responses(5);
    CHECK_EQ(found.size(), size_t(5));
    const char* bodies[] = {"one", "2", "33333", "", "five"};
    for (size_t i = 0; i < 5; i++) CHECK_EQ(found[i].body, bodies[i]);
  }
  fixture.check_clean();
}

// Only a few requests are open at once; the rest waits where it is, and the connection is not read.
TEST(a_pipeline_is_bounded) {
  constexpr size_t kRequests = 3000;
  Fixture fixture;
  {
    Http1Client client(fixture.door);
    client.send(post("/later", "1"));
    std::string many;
    for (size_t i = 0; i < kRequests; i++) many += post("/echo", std::to_string(i));
    client.send(many);
    client.run();
    CHECK_EQ(client.received, "");
    CHECK(fixture.door.calls.pool.used() <= 8);
    CHECK(fixture.counters.bytes_in <= 3 * fixture.door.limits.read_bytes);
    fixture.service.finish(fixture.service.waiting[0]);
    const std::vector<Response> found = client.responses(kRequests + 1);
    CHECK_EQ(found.size(), kRequests + 1);
    for (size_t i = 0; i < kRequests; i++) CHECK_EQ(found[i + 1].body, std::to_string(i));
  }
  fixture.check_clean();
}

TEST(every_split_of_a_request_gives_the_same_response) {
  const std::string requests[] = {post("/echo", "hello", "Expect-Nothing: x\r\n"), chunked("/echo", {"hel", "lo"}, "T: 1\r\n"),
                                  post("/echo", "hello") + "\r\n" + get("/echo"), get("/none")};
  Fixture fixture;
  {
    for (const std::string& request : requests) {
      Http1Client whole(fixture.door);
      const std::string expected = whole.ask(request);
      CHECK(expected.starts_with("HTTP/1.1 "));
      const auto without_date = [](std::string text) {
        for (size_t at; (at = text.find("Date: ")) != text.npos;) text.erase(at, text.find("\r\n", at) - at);
        return text;
      };
      for (size_t cut = 1; cut < request.size(); cut++) {
        Http1Client client(fixture.door);
        client.send(request.substr(0, cut));
        client.turn();
        client.send(request.substr(cut));
        client.run();
        CHECK_EQ(without_date(client.received), without_date(expected));
      }
      Http1Client slow(fixture.door);
      for (const char byte : request) slow.send({&byte, 1}), slow.turn();
      slow.run();
      CHECK_EQ(without_date(slow.received), without_date(expected));
    }
  }
  fixture.check_clean();
}

// Every one of these is read differently by some server or proxy. Each ends the connection, and no method hears of it.
TEST(requests_that_others_may_read_differently_are_refused) {
  const std::string line = "POST /echo HTTP/1.1\r\n", host = "Host: test\r\n", end = "\r\n";
  const std::string start = line + host, length = "Content-Length: 3\r\n", body = "abc";
  const std::string chunks = "Transfer-Encoding: chunked\r\n";
  const std::pair<const char*, std::string> cases[] = {
      {"both lengths", start + length + chunks + end + body},
      {"both lengths, the other way round", start + chunks + length + end + body},
      {"length twice, different", start + length + "Content-Length: 4\r\n" + end + body},
      {"length twice, the same", start + length + length + end + body},
      {"length as a list", start + "Content-Length: 3, 3\r\n" + end + body},
      {"length with a sign", start + "Content-Length: +3\r\n" + end + body},
      {"negative length", start + "Content-Length: -3\r\n" + end + body},
      {"length in hex", start + "Content-Length: 0x3\r\n" + end + body},
      {"length with a space inside", start + "Content-Length: 1 3\r\n" + end + body},
      {"empty length", start + "Content-Length: \r\n" + end + body},
      {"length over 64 bits", start + "Content-Length: 18446744073709551619\r\n" + end + body},
      {"folded header", start + "X-A: b\r\n c\r\n" + length + end + body},
      {"folded header with an empty first line", start + "X-A:\r\n b\r\n" + length + end + body},
      {"folded empty header", start + "X-A: b\r\n \r\n" + length + end + body},
      {"folded length", start + "Content-Length:\r\n 3\r\n" + end + body},
      {"header that begins with a space", line + " " + host + length + end + body},
      {"bare LF behind the request line", "POST /echo HTTP/1.1\n" + host + length + end + body},
      {"bare LF behind a header", line + "Host: test\n" + length + end + body},
      {"bare LF as the end", start + "Content-Length: 3\r\n\n" + body},
      {"bare CR in a header", start + "X-A: b\rc\r\n" + length + end + body},
      {"bare CR as the end", start + length + "\rX" + body},
      {"NUL in a header", start + std::string("X-A: b\0c\r\n", 10) + length + end + body},
      {"NUL in a name", start + std::string("X\0A: b\r\n", 8) + length + end + body},
      {"control character in a header", start + "X-A: b\x01" "c\r\n" + length + end + body},
      {"DEL in a header", start + "X-A: b\x7f\r\n" + length + end + body},
      {"space before the colon", line + "Host : test\r\n" + length + end + body},
      {"space before the colon of the length", start + "Content-Length : 3\r\n" + end + body},
      {"tab before the colon", start + "Transfer-Encoding\t: chunked\r\n" + end + "0\r\n\r\n"},
      {"header without a colon", start + "X-A\r\n" + length + end + body},
      {"header without a name", start + ": b\r\n" + length + end + body},
      {"no host", line + length + end + body},
      {"two hosts", start + host + length + end + body},
      {"host with a space", line + "Host: a b\r\n" + length + end + body},
      {"host with a path", line + "Host: a/b\r\n" + length + end + body},
      {"list of hosts", line + "Host: a,b\r\n" + length + end + body},
      {"unknown coding", start + "Transfer-Encoding: gzip\r\n" + end + body},
      {"coding before chunked", start + "Transfer-Encoding: gzip, chunked\r\n" + end + "0\r\n\r\n"},
      {"coding behind chunked", start + "Transfer-Encoding: chunked, gzip\r\n" + end + "0\r\n\r\n"},
      {"identity", start + "Transfer-Encoding: identity\r\n" + length + end + body},
      {"chunked twice", start + "Transfer-Encoding: chunked, chunked\r\n" + end + "0\r\n\r\n"},
      {"chunked in two headers", start + chunks + chunks + end + "0\r\n\r\n"},
      {"chunked misspelt", start + "Transfer-Encoding: xchunked\r\n" + end + "0\r\n\r\n"},
      {"chunked in quotes", start + "Transfer-Encoding: \"chunked\"\r\n" + end + "0\r\n\r\n"},
      {"chunked with a vertical tab", start + "Transfer-Encoding: \x0b" "chunked\r\n" + end + "0\r\n\r\n"},
      {"chunked in HTTP/1.0", "POST /echo HTTP/1.0\r\n" + host + chunks + end + "0\r\n\r\n"},
      {"empty chunk size", start + chunks + end + "\r\nabc\r\n0\r\n\r\n"},
      {"negative chunk size", start + chunks + end + "-3\r\nabc\r\n0\r\n\r\n"},
      {"chunk size with a sign", start + chunks + end + "+3\r\nabc\r\n0\r\n\r\n"},
      {"chunk size with 0x", start + chunks + end + "0x3\r\nabc\r\n0\r\n\r\n"},
      {"chunk size with a space before", start + chunks + end + " 3\r\nabc\r\n0\r\n\r\n"},
      {"chunk size with an underscore", start + chunks + end + "1_0\r\nabc\r\n0\r\n\r\n"},
      {"chunk size over 64 bits", start + chunks + end + "10000000000000003\r\nabc\r\n0\r\n\r\n"},
      {"chunk size behind a bare LF", start + chunks + end + "3\nabc\r\n0\r\n\r\n"},
      {"chunk longer than its size", start + chunks + end + "3\r\nabcd\r\n0\r\n\r\n"},
      {"chunk without its end", start + chunks + end + "3\r\nabc0\r\n\r\n"},
      {"chunk ended by a bare LF", start + chunks + end + "3\r\nabc\n0\r\n\r\n"},
      {"bad chunk extension", start + chunks + end + "3;\x01\r\nabc\r\n0\r\n\r\n"},
      {"bare LF in a chunk extension", start + chunks + end + "3;a=\"\nb\"\r\nabc\r\n0\r\n\r\n"},
      {"long chunk extension", start + chunks + end + "3;a=" + std::string(300, 'x') + "\r\nabc\r\n0\r\n\r\n"},
      {"folded trailer", start + chunks + end + "3\r\nabc\r\n0\r\nX-A: b\r\n c\r\n\r\n"},
      {"bare LF in a trailer", start + chunks + end + "3\r\nabc\r\n0\r\nX-A: b\nX: c\r\n\r\n"},
      {"length as a trailer", start + chunks + end + "3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n"},
      {"HTTP/1.2", "POST /echo HTTP/1.2\r\n" + host + length + end + body},
      {"HTTP/2.0", "POST /echo HTTP/2.0\r\n" + host + length + end + body},
      {"HTTP/0.9", "GET /echo\r\n\r\n"},
      {"HTTP/11", "POST /echo HTTP/11\r\n" + host + length + end + body},
      {"http/1.1", "POST /echo http/1.1\r\n" + host + length + end + body},
      {"two spaces in the request line", "POST  /echo HTTP/1.1\r\n" + host + length + end + body},
      {"space in the target", "POST /ec ho HTTP/1.1\r\n" + host + length + end + body},
      {"space behind the version", "POST /echo HTTP/1.1 \r\n" + host + length + end + body},
      {"tab in the request line", "POST\t/echo HTTP/1.1\r\n" + host + length + end + body},
      {"two empty lines before", "\r\n\r\n" + start + length + end + body},
      {"a LF before", "\n" + start + length + end + body},
      {"a space before", " " + start + length + end + body},
      {"a method with a colon", "PO:ST /echo HTTP/1.1\r\n" + host + length + end + body},
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)},
  };
  Fixture fixture;
  for (const auto& [name, bytes] : cases) {
    const size_t heard = fixture.service.messages.size();
    for (const bool at_once : {true, false}) {
      Http1Client client(fixture.door);
      if (at_once) {
        client.send(bytes + post("/echo", "smuggled"));
      } else {
        for (const char byte : bytes) client.send({&byte, 1}), client.turn();
        client.send(post("/echo", "smuggled"));
      }
      client.run();
      const bool refused = client.received.starts_with("HTTP/1.1 400 ");
      const bool alone = client.received.find("Date: ") == client.received.rfind("Date: ");  // nothing behind it
      if (!refused || !alone) test::fail(__FILE__, __LINE__, name + (": " + client.received));
      CHECK(client.received.find("Connection: close\r\n") != std::string::npos);
      CHECK(client.eof);
    }
    if (fixture.service.messages.size() != heard) test::fail(__FILE__, __LINE__, name);
  }
  fixture.check_clean();
}

TEST_MAIN
