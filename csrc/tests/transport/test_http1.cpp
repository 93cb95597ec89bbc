// HTTP/1.1: requests in every form, responses in their order, and what is refused.
#include "tests/in_time.h"
#include "tests/transport/compressed.h"
#include "tests/transport/http1_client.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

std::string chunked(std::string_view path, const std::vector<std::string>& chunks, std::string_view trailers = "") {
  std::string out = "POST " + std::string(path) + " HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
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

TEST(responses_come_in_the_order_of_requests) {
  Fixture fixture;
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

// Only a few requests are open at once; the rest waits where it is, and the connection is not read.
TEST(a_pipeline_is_bounded) {
  constexpr size_t kRequests = 3000;
  Fixture fixture;
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

TEST(every_split_of_a_request_gives_the_same_response) {
  const std::string requests[] = {post("/echo", "hello", "Expect-Nothing: x\r\n"),
                                  chunked("/echo", {"hel", "lo"}, "T: 1\r\n"),
                                  post("/echo", "hello") + "\r\n" + get("/echo"), get("/none")};
  Fixture fixture;
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
      {"control character in a header", start +
                                            "X-A: b\x01"
                                            "c\r\n" +
                                            length + end + body},
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
      {"chunked with a vertical tab", start +
                                          "Transfer-Encoding: \x0b"
                                          "chunked\r\n" +
                                          end + "0\r\n\r\n"},
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
  Http1Client tls(fixture.door);
  CHECK_EQ(tls.ask("\x16\x03\x01"), "");
  CHECK(tls.eof);
  CHECK_EQ(fixture.counters.tls_on_plaintext, u64(1));
}

// Refusals of well-formed requests: the connection stays, unless the body was not read.
TEST(refusals_have_their_status) {
  Limits limits;
  limits.settings.max_message_bytes = 10'000;
  const std::string big(10'001, 'x'), host = "Host: test\r\n";
  std::string many;
  for (int i = 0; i < 101; i++) many += "X-" + std::to_string(i) + ": y\r\n";
  struct Case {
    const char* name;
    std::string request;
    int status;
    bool stays;
    std::string body;
  };
  const Case cases[] = {
      {"no route", get("/none"), 404, true, "{\"error\":\"there is no route /none; GET /docs shows all routes\"}"},
      {"no route, with a body", post("/none", "abc"), 404, true,
       "{\"error\":\"there is no route /none; GET /docs shows all routes\"}"},
      {"a longer path", get("/echo/x"), 404, true,
       "{\"error\":\"there is no route /echo/x; GET /docs shows all routes\"}"},
      {"a slash behind", get("/echo/"), 404, true,
       "{\"error\":\"there is no route /echo/; GET /docs shows all routes\"}"},
      {"escaped path", get("/%65cho"), 404, true,
       "{\"error\":\"there is no route /%65cho; GET /docs shows all routes\"}"},
      {"empty parameter", post("/models//versions/1", ""), 404, true,
       "{\"error\":\"there is no route /models//versions/1; GET /docs shows all routes\"}"},
      {"bad escape", post("/models/%zz/versions/1", ""), 404, true,
       "{\"error\":\"there is no route /models/%zz/versions/1; GET /docs shows all routes\"}"},
      {"escaped NUL", post("/models/%00/versions/1", ""), 404, true,
       "{\"error\":\"there is no route /models/%00/versions/1; GET /docs shows all routes\"}"},
      {"other verb", "DELETE /echo HTTP/1.1\r\n" + host + "\r\n", 405, true,
       "{\"error\":\"/echo takes GET, HEAD, POST, OPTIONS\"}"},
      {"unknown verb", "BREW /later HTTP/1.1\r\n" + host + "\r\n", 405, true,
       "{\"error\":\"/later takes POST, OPTIONS\"}"},
      {"unknown encoding", post("/echo", "abc", "Content-Encoding: br\r\n"), 415, true,
       "{\"error\":\"the content-encoding must be identity, gzip or deflate\"}"},
      {"corrupt gzip", post("/echo", "abc", "Content-Encoding: gzip\r\n"), 400, true,
       "{\"error\":\"the compressed body is corrupt\"}"},
      {"unknown expectation", post("/echo", "abc", "Expect: tea\r\n"), 417, true,
       "{\"error\":\"the Expect header may only be 100-continue\"}"},
      {"bad header length", post("/echo", "abc", "Inference-Header-Content-Length: x\r\n"), 400, true,
       "{\"error\":\"Inference-Header-Content-Length must be given once, in digits\"}"},
      {"long body", post("/echo", big), 413, true, "{\"error\":\"the body is larger than 10000 bytes\"}"},
      {"long body that is not read", post("/echo", std::string(100'000, 'x')), 413, false,
       "{\"error\":\"the body is larger than 10000 bytes\"}"},
      {"long chunked body", chunked("/echo", {big}), 413, true, "{\"error\":\"the body is larger than 10000 bytes\"}"},
      {"long body inside gzip", post("/echo", fuzz::compressed(big, true, 6), "Content-Encoding: gzip\r\n"), 413, true,
       "{\"error\":\"the body is larger than 10000 bytes\"}"},
      {"many headers", get("/echo", many), 431, false,
       "{\"error\":\"the request's head is too long or has too many headers\"}"},
      {"long header", get("/echo", "X: " + std::string(17'000, 'y') + "\r\n"), 431, false,
       "{\"error\":\"the request's head is too long or has too many headers\"}"},
      {"long target", get("/" + std::string(17'000, 'y')), 431, false,
       "{\"error\":\"the request's head is too long or has too many headers\"}"},
  };
  Fixture fixture(limits);
  for (const Case& each : cases) {
    Http1Client client(fixture.door);
    const Response response = client.response(each.request);
    if (response.status != each.status || response.body != each.body)
      test::fail(__FILE__, __LINE__, each.name + (": " + response.head) + response.body);
    CHECK(response.has("Content-Type: application/json"));
    if (response.has("Connection: close") == each.stays) test::fail(__FILE__, __LINE__, each.name);
    if (each.stays) CHECK_EQ(client.response(post("/echo", "next")).body, "next");
    client.run();
    CHECK_EQ(client.eof, !each.stays);
  }
  Http1Client client(fixture.door);
  CHECK(client.response("DELETE /later HTTP/1.1\r\nHost: test\r\n\r\n").has("Allow: POST, OPTIONS"));
  client.close();
}

TEST(compressed_bodies_are_inflated) {
  Fixture fixture;
  Http1Client client(fixture.door);
  const std::string text(50'000, 'z');
  CHECK_EQ(client.response(post("/echo", fuzz::compressed(text, true, 6), "Content-Encoding: gzip\r\n")).body, text);
  CHECK_EQ(client.response(post("/echo", fuzz::compressed(text, false, 6), "Content-Encoding: DEFLATE\r\n")).body,
           text);
  CHECK_EQ(client.response(chunked("/echo", {"ab"})).body, "ab");
  // A gzip file may have several members, as those that are appended to have. zlib's format has one.
  const auto members = [&](bool gzip, int count) {
    std::string out;
    for (int i = 0; i < count; i++) out += fuzz::compressed(i < 3 ? std::string(20'000, char('a' + i)) : "", gzip, 6);
    return post("/echo", out, gzip ? "Content-Encoding: gzip\r\n" : "Content-Encoding: deflate\r\n");
  };
  CHECK_EQ(client.response(members(true, 2)).body, std::string(20'000, 'a') + std::string(20'000, 'b'));
  CHECK_EQ(client.response(members(true, 1024)).body.size(), size_t(60'000));
  for (const std::string& bad : {members(true, 1025), members(false, 2)})
    CHECK_EQ(client.response(bad).body, "{\"error\":\"the compressed body is corrupt\"}");
}

// Where that is allowed, pages of other sites may read the answers, errors among them, and ask before what they may
// send.
TEST(pages_in_browsers) {
  Fixture fixture({.settings = {.cors = true}});
  Http1Client client(fixture.door);
  const std::string origin = "Origin: https://page.example\r\n";
  for (const std::string& request : {post("/echo", "a", origin), get("/nothing", origin)})
    CHECK(client.response(request).has("Access-Control-Allow-Origin: *"));
  CHECK(client.response(post("/echo", "a")).head.find("Access-Control") == std::string::npos);
  const Response asked = client.response("OPTIONS /echo HTTP/1.1\r\nHost: test\r\n" + origin + "\r\n");
  CHECK_EQ(asked.status, 200);
  for (const char* line : {"Access-Control-Allow-Origin: *", "Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS",
                           "Access-Control-Allow-Headers: *, Authorization"})
    CHECK(asked.has(line));
  for (const char* path : {"/ping", "/", "/health"}) CHECK_EQ(client.response(get(path)).status, 503);
}

TEST(pages_in_browsers_are_kept_out_otherwise) {
  Fixture fixture;
  Http1Client client(fixture.door);
  const Response found = client.response(post("/echo", "a", "Origin: https://page.example\r\n"));
  CHECK(found.head.find("Access-Control") == std::string::npos);
}

TEST(head_and_options) {
  Fixture fixture;
  Http1Client client(fixture.door);
  const Response head = client.response("HEAD /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc", true);
  CHECK_EQ(head.status, 200);
  CHECK(head.has("Content-Length: 3"));
  const Response none = client.response("HEAD /none HTTP/1.1\r\nHost: test\r\n\r\n", true);
  CHECK_EQ(none.status, 404);
  const Response options = client.response("OPTIONS /later HTTP/1.1\r\nHost: test\r\n\r\n");
  CHECK_EQ(options.status, 200);
  CHECK(options.has("Allow: POST, OPTIONS"));
  const Response server = client.response("OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n");
  CHECK_EQ(server.status, 200);
  CHECK(server.has("Allow: GET, HEAD, POST, OPTIONS"));
  CHECK_EQ(client.response("GET * HTTP/1.1\r\nHost: test\r\n\r\n").status, 404);
  CHECK_EQ(client.response("GET http://test/echo?x HTTP/1.1\r\nHost: test\r\n\r\n").status, 200);
  CHECK_EQ(client.response("CONNECT test:80 HTTP/1.1\r\nHost: test\r\n\r\n").status, 404);
}

TEST(http_1_0_and_the_end_of_a_connection) {
  Fixture fixture;
  Http1Client old(fixture.door);
  const Response response = old.response("POST /echo HTTP/1.0\r\nContent-Length: 2\r\n\r\nab");
  CHECK_EQ(response.body, "ab");
  CHECK(response.has("Connection: close"));
  old.run();
  CHECK(old.eof);
  Http1Client kept(fixture.door);
  CHECK(!kept.response("POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nab")
             .has("Connection: close"));
  CHECK_EQ(kept.response(post("/echo", "c", "Connection: close\r\n")).body, "c");
  kept.run();
  CHECK(kept.eof);
  Http1Client both(fixture.door);  // what follows the last request is not looked at
  both.send(post("/echo", "1", "Connection: close\r\n") + post("/echo", "2"));
  both.run();
  CHECK_EQ(both.responses(2).size(), size_t(1));
  Http1Client streamed(fixture.door);  // an old client reads until the end
  CHECK(streamed.ask("POST /later HTTP/1.0\r\nContent-Length: 2\r\n\r\nab").empty());
  fixture.service.say(fixture.service.waiting.back(), "one");
  streamed.run();
  fixture.service.say(fixture.service.waiting.back(), "two");
  fixture.service.finish(fixture.service.waiting.back());
  streamed.run();
  CHECK(streamed.received.ends_with("\r\n\r\nonetwo"));
  CHECK(streamed.received.find("chunked") == std::string::npos);
  CHECK(streamed.eof);
}

TEST(the_body_is_asked_for) {
  Fixture fixture;
  Http1Client client(fixture.door);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
  CHECK_EQ(client.ask(head), "HTTP/1.1 100 Continue\r\n\r\n");
  CHECK_EQ(client.response("ab").body, "ab");
  CHECK_EQ(client.response(head + "cd").body, "cd");  // it did not wait
  // Not behind a response that is still to come, and not if the answer is known.
  client.send(post("/later", "x") + head);
  client.run();
  CHECK_EQ(client.received, "");
  fixture.service.finish(fixture.service.waiting.back());
  client.run();
  CHECK(client.received.ends_with("HTTP/1.1 100 Continue\r\n\r\n"));
  client.received.clear();
  CHECK_EQ(client.response("ef").body, "ef");
  const Response refused =
      client.response("POST /none HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  CHECK_EQ(refused.status, 404);
  CHECK(refused.has("Connection: close"));
}

TEST(a_response_streams_in_chunks) {
  Fixture fixture;
  Http1Client client(fixture.door);
  const auto stream = [&](ContentType type, const Status& end) {
    client.ask(post("/later", ""));
    const CallId call = fixture.service.waiting.back();
    fixture.service.transport->set_reply(call, {.type = type});
    fixture.service.say(call, "data: 1\n\n");
    client.run();
    CHECK(client.received.find("Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n") != std::string::npos);
    client.received.clear();
    fixture.service.say(call, "data: 2\n\n");
    fixture.service.finish(call, end);
    client.run();
    return std::exchange(client.received, {});
  };
  const Status lost{.code = StatusCode::kInternal, .message = "lost\n"};
  CHECK_EQ(stream(ContentType::kEventStream, {}), "9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  // An error is an event, and the response is complete.
  CHECK_EQ(stream(ContentType::kEventStream, lost), "23\r\ndata: 2\n\ndata: {\"error\":\"lost\\n\"}\n\n\r\n0\r\n\r\n");
  CHECK(!client.eof);
  // Nothing in other bytes could be an error, so they are cut.
  CHECK_EQ(stream(ContentType::kBinary, lost), "9\r\ndata: 2\n\n\r\n");
  CHECK(client.eof);
  // Before its first byte has left, an error takes its place.
  Http1Client other(fixture.door);
  other.ask(post("/later", ""));
  fixture.service.say(fixture.service.waiting.back(), "half");
  fixture.service.finish(fixture.service.waiting.back(), {.code = StatusCode::kUnavailable, .message = "a \"b\""});
  const Response response = other.responses(1)[0];
  CHECK_EQ(response.status, 503);
  CHECK_EQ(response.body, "{\"error\":\"a \\\"b\\\"\"}");
}

TEST(statuses_of_methods) {
  const std::pair<StatusCode, int> cases[] = {
      {StatusCode::kOk, 200},
      {StatusCode::kCancelled, 499},
      {StatusCode::kUnknown, 500},
      {StatusCode::kInvalidArgument, 400},
      {StatusCode::kDeadlineExceeded, 504},
      {StatusCode::kNotFound, 404},
      {StatusCode::kResourceExhausted, 429},
      {StatusCode::kUnimplemented, 501},
      {StatusCode::kInternal, 500},
      {StatusCode::kUnavailable, 503},
      {StatusCode::kUnauthenticated, 401},
  };
  Fixture fixture;
  Http1Client client(fixture.door);
  for (const auto& [code, status] : cases) {
    client.ask(post("/later", ""));
    fixture.service.finish(fixture.service.waiting.back(), {.code = code, .message = "why"});
    const Response response = client.responses(1)[0];
    CHECK_EQ(response.status, status);
    CHECK_EQ(response.has("Retry-After: 1"), status == 429);
    CHECK_EQ(response.body, status == 200 ? "" : "{\"error\":\"why\"}");
  }
  client.ask(post("/later", ""));
  fixture.service.finish(fixture.service.waiting.back(),
                         {.code = StatusCode::kResourceExhausted, .message = "full", .retry_after_ms = 5000});
  const Response response = client.responses(1)[0];
  CHECK(response.has("Retry-After: 4") || response.has("Retry-After: 5") || response.has("Retry-After: 6"));
  CHECK_EQ(fixture.counters.http_requests[0][2], u64(1));
  CHECK_EQ(fixture.counters.http_requests[0][4], u64(6));
  CHECK_EQ(fixture.counters.http_requests[0][5], u64(5));
}

// However late it comes, and however slowly: nothing stands before the answer.
TEST(methods_of_grpc_are_505_over_http1) {
  Fixture fixture;
  Http1Client client(fixture.door);
  const u64 end_ns = now_ns() + 20 * kMillisecond;
  while (now_ns() < end_ns) client.turn();
  CHECK_EQ(client.ask("P"), "");
  CHECK(client.ask("OST /test.Service/Echo HTTP/1.1\r\nHost: test\r\n\r\n").starts_with("HTTP/1.1 505 "));
}
