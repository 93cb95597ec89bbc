// What the driver is asked to do: its command line, its payloads, and the headers of its calls.
#pragma once
#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace drive {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "drive: %s\n", what.c_str());
  std::exit(1);
}

struct Options {
  std::string target, path, payloads, sample_file;
  std::vector<std::string> headers;
  double connections = 16, inflight = 64, seconds = 5, warmup = 1, rate = 0, seed = 1, sample = 0;

  bool open_loop() const { return rate > 0; }
  std::string host() const { return target.substr(0, target.rfind(':')); }
  std::string port() const { return target.substr(target.rfind(':') + 1); }
};

inline Options read_options(int argc, char** argv) {
  Options o;
  const std::pair<std::string_view, std::string*> texts[] = {
      {"--target", &o.target}, {"--path", &o.path}, {"--payloads", &o.payloads}, {"--sample-file", &o.sample_file}};
  const std::pair<std::string_view, double*> numbers[] = {{"--connections", &o.connections},
                                                          {"--inflight", &o.inflight},
                                                          {"--seconds", &o.seconds},
                                                          {"--warmup", &o.warmup},
                                                          {"--rate", &o.rate},
                                                          {"--seed", &o.seed},
                                                          {"--sample", &o.sample}};
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (i + 1 == argc) fail(std::string(flag) + " needs a value");
    bool known = flag == "--header";
    if (known) o.headers.emplace_back(argv[i + 1]);
    for (auto [name, to] : texts)
      if (flag == name) known = true, *to = argv[i + 1];
    for (auto [name, to] : numbers)
      if (flag == name) known = true, *to = std::atof(argv[i + 1]);
    if (!known) fail("unknown flag " + std::string(flag));
  }
  if (o.target.find(':') == std::string::npos || o.path.empty() || o.payloads.empty())
    fail("--target HOST:PORT, --path and --payloads are needed");
  if (o.connections < 1 || o.inflight < 1 || o.seconds <= 0) fail("--connections, --inflight, --seconds: at least 1");
  return o;
}

// The frames of a payload file; the views live as long as the program.
inline std::vector<std::string_view> read_frames(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  static const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string_view> frames;
  for (size_t at = 0; at + 5 <= bytes.size();) {
    const auto* b = reinterpret_cast<const std::uint8_t*>(bytes.data() + at);
    const size_t size = 5 + (size_t(b[1]) << 24 | size_t(b[2]) << 16 | size_t(b[3]) << 8 | b[4]);
    if (at + size > bytes.size()) fail("the last payload is cut short");
    frames.emplace_back(bytes.data() + at, size);
    at += size;
  }
  if (frames.empty()) fail("no payload in " + path);
  return frames;
}

// The same headers for all calls, as a gRPC client sends them.
inline std::vector<nghttp2_nv> make_headers(const Options& options) {
  static std::deque<std::string> texts;  // nghttp2 reads them at every call
  std::vector<nghttp2_nv> headers;
  auto add = [&](std::string name, std::string value) {
    const std::string &n = texts.emplace_back(std::move(name)), &v = texts.emplace_back(std::move(value));
    headers.push_back({(std::uint8_t*)n.data(), (std::uint8_t*)v.data(), n.size(), v.size(),
                       NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE});
  };
  add(":method", "POST"), add(":scheme", "http"), add(":path", options.path), add(":authority", options.target);
  add("te", "trailers"), add("content-type", "application/grpc");
  for (const std::string& header : options.headers) {
    const size_t colon = header.find(':');
    if (colon == std::string::npos) fail("--header name:value");
    add(header.substr(0, colon), header.substr(colon + 1));
  }
  return headers;
}

}  // namespace drive
