// Plain requests over HTTP/2: the same calls as over HTTP/1.1, on a connection that announces itself by its preface.
#include "tests/transport/compressed.h"
#include "tests/transport/http1_client.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

struct PlainClient : Client {
  explicit PlainClient(FrontDoor& door, u32 window = 1 << 20) : Client(door, window) {
    content_type = "application/json";
  }
  StreamAnswer& response(const std::string& path, const std::string& body, const Fields& extra = {}) {
    const i32 stream = call(path, body, true, extra);
    run_until([&] { return answers[stream].closed; });
    return answers[stream];
  }
};

}  // namespace

TEST(a_body_is_a_message_over_http2) {
  Fixture fixture;
  PlainClient client(fixture.door);
  for (const Fields& extra : {Fields{}, Fields{{"content-length", "3"}}}) {
    const StreamAnswer& answer = client.response("/echo?a=b", "abc", extra);
    CHECK_EQ(answer.data, "abc");
    CHECK_EQ(answer.fields.at(":status"), "200");
    CHECK_EQ(answer.fields.at("content-type"), "application/json");
    CHECK_EQ(answer.fields.at("content-length"), "3");
    CHECK_EQ(answer.header_blocks, 1);  // no trailers
    CHECK(answer.closed);
    CHECK(!answer.reset);
  }
  CHECK_EQ(client.response("/echo", "").data, "");
  CHECK_EQ(client.response("/echo", std::string(300'000, 'x')).data, std::string(300'000, 'x'));
  CHECK_EQ(client.response("/models/a%2Fb/versions/7", "m").data, "m");
  CHECK_EQ(fixture.service.last_parameters[0], "a/b");
  CHECK(fixture.service.last_info.half_closed);
  CHECK_EQ(client.response("/echo", fuzz::compressed("zipped", true, 6), {{"content-encoding", "gzip"}}).data,
           "zipped");
}

// The first bytes tell the version, the path and the content type whether a stream is gRPC's.
TEST(one_port_speaks_all_protocols) {
  const std::string grpc = "application/grpc", json = "application/json", message = framed("x");
  const struct {
    std::string path, content_type, body, status, code, answer;
  } cases[] = {
      {"/test.Service/Echo", grpc, message, "200", "0", message},
      {"/test.Service/Echo", "application/grpc+proto; x=y", message, "200", "0", message},
      {"/test.Service/Echo", json, message, "415", "3", ""},
      {"/test.Service/Nothing", grpc, message, "200", "12", ""},
      {"/echo", grpc, message, "200", "12", ""},
      {"/echo", json, "x", "200", "none", "x"},
      {"/echo", "application/grpc-web", "x", "200", "none", "x"},
      {"/test.Service/Nothing", json, "x", "404", "none",
       "{\"error\":\"there is no route /test.Service/Nothing; GET /docs shows all routes\"}"},
  };
  Fixture fixture;
  Client client(fixture.door);
  for (int round = 0; round < 2; round++) {
    for (const auto& each : cases) {
      client.content_type = each.content_type;
      StreamAnswer& answer = client.ask(each.path, each.body);
      CHECK_EQ(answer.fields[":status"], each.status);
      CHECK_EQ(answer.code(), each.code);
      CHECK_EQ(answer.data, each.answer);
    }
    Http1Client other(fixture.door);
    other.send(post("/echo", "y"));
    CHECK_EQ(other.responses(1)[0].body, "y");
    CHECK_EQ(fixture.door.net.connections.open(), 2u);
  }
  CHECK(client.goaways.empty());
}

TEST(a_response_streams_over_http2) {
  Fixture fixture;
  PlainClient client(fixture.door);
  const auto stream = [&](ContentType type, const Status& end) -> StreamAnswer& {
    StreamAnswer& answer = client.ask("/later", "");
    const CallId call = fixture.service.waiting.back();
    fixture.service.transport->set_reply(call, {.type = type});
    fixture.service.say(call, "data: 1\n\n");
    client.run();
    CHECK_EQ(answer.data, "data: 1\n\n");
    CHECK_EQ(answer.fields.at("content-type"), name_of(type));
    CHECK(!answer.fields.contains("content-length"));
    fixture.service.say(call, "data: 2\n\n");
    fixture.service.finish(call, end);
    client.run();
    CHECK(answer.closed);
    return answer;
  };
  const Status lost{.code = StatusCode::kInternal, .message = "lost"};
  const StreamAnswer& good = stream(ContentType::kEventStream, {});
  CHECK(!good.reset && good.data == "data: 1\n\ndata: 2\n\n");
  // An error is an event, and the response is complete.
  const StreamAnswer& failed = stream(ContentType::kEventStream, lost);
  CHECK(!failed.reset);
  CHECK_EQ(failed.data, "data: 1\n\ndata: 2\n\ndata: {\"error\":\"lost\"}\n\n");
  // Nothing in other bytes could be an error, so they are cut.
  const StreamAnswer& cut = stream(ContentType::kBinary, lost);
  CHECK_EQ(cut.data, "data: 1\n\ndata: 2\n\n");
  CHECK(cut.reset);
  CHECK_EQ(cut.error, u32(NGHTTP2_INTERNAL_ERROR));
}

TEST(refusals_over_http2) {
  Fixture fixture({.settings = {.max_message_bytes = 10'000}});
  PlainClient client(fixture.door);
  CHECK_EQ(client.response("/none", "abc").fields.at(":status"), "404");
  CHECK_EQ(client.response("/echo", "abc").fields.at("date").size(),
           std::string("Sun, 06 Nov 1994 08:49:37 GMT").size());
  CHECK_EQ(client.response("/echo", std::string(10'001, 'x')).fields.at(":status"), "413");
  CHECK_EQ(client.response("/echo", std::string(10'001, 'x'), {{"content-length", "10001"}}).fields.at(":status"),
           "413");
  CHECK_EQ(client.response("/echo", "a", {{"content-encoding", "br"}}).fields.at(":status"), "415");
  CHECK_EQ(client.response("/echo", "a", {{"x", std::string(20'000, 'y')}}).fields.at(":status"), "431");
  const StreamAnswer& early = client.response("/echo", "abc", {{"content-length", "4"}});
  CHECK(early.reset);
  CHECK_EQ(client.response("/echo", "next").data, "next");
  StreamAnswer& full = client.ask("/later", "");
  fixture.service.finish(fixture.service.waiting.back(), {.code = StatusCode::kResourceExhausted, .message = "full"});
  client.run();
  CHECK_EQ(full.fields.at(":status"), "429");
  CHECK_EQ(full.fields.at("retry-after"), "1");
  CHECK_EQ(full.data, "{\"error\":\"full\"}");
}

TEST(the_preface_may_come_in_pieces) {
  Fixture fixture;
  for (size_t cut = 1; cut < 40; cut++) {
    PlainClient client(fixture.door);
    const i32 stream = client.call("/echo", "abc");
    const std::string bytes = client.output();
    client.send(bytes.substr(0, cut));
    fixture.door.turn();
    client.send(bytes.substr(cut));
    client.run();
    CHECK_EQ(client.answers[stream].data, "abc");
  }
}

TEST(plain_requests_are_not_for_the_grpc_port) {
  Fixture fixture;
  Client client(fixture.door);
  CHECK_EQ(client.ask("/echo", "abc").code(), "12");
}
