// What the driver saw, and how it is printed.
#pragma once
#include <sys/resource.h>

#include <algorithm>

#include "drive/options.h"

namespace drive {

struct Results {
  static constexpr int kNoStatus = 17;
  u64 statuses[kNoStatus + 1] = {};
  u64 started = 0, unfinished = 0, empty_answers = 0, bytes_in = 0;
  std::vector<float> latency_us;   // of calls that ended OK
  std::vector<float> lateness_us;  // open loop: how late calls were started, by the driver or for want of a stream
};

inline void print(const char* name, std::vector<float>& values) {
  std::sort(values.begin(), values.end());
  auto at = [&](double q) { return values.empty() ? 0 : double(values[size_t(q * double(values.size() - 1))]); };
  double sum = 0;
  for (const float value : values) sum += double(value);
  std::printf("\"%s\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f, \"mean\": %.1f}",
              name, at(.5), at(.9), at(.99), at(.999), at(1), values.empty() ? 0 : sum / double(values.size()));
}

// One JSON object on stdout. rate: calls that ended OK, per second.
inline void report(const Options& options, Results& results, double wall_s) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; };
  std::printf("{\"loop\": \"%s\", \"offered_rate\": %.1f, \"rate\": %.1f, ", options.open_loop() ? "open" : "closed",
              options.rate, double(results.statuses[0]) / options.seconds);
  for (auto [name, value] : {std::pair{"started", results.started},
                             {"unfinished", results.unfinished},
                             {"empty_answers", results.empty_answers},
                             {"bytes_in", results.bytes_in}})
    std::printf("\"%s\": %llu, ", name, (unsigned long long)value);
  std::printf("\"cpu_fraction\": %.3f, \"status\": {",
              (seconds(usage.ru_utime) + seconds(usage.ru_stime)) / std::max(wall_s, 1e-9));
  const char* comma = "";
  for (int i = 0; i <= Results::kNoStatus; i++) {
    if (!results.statuses[i]) continue;
    const std::string name = i == Results::kNoStatus ? "none" : std::to_string(i);
    std::printf("%s\"%s\": %llu", comma, name.c_str(), (unsigned long long)results.statuses[i]);
    comma = ", ";
  }
  std::printf("}, ");
  print("latency_us", results.latency_us);
  std::printf(", ");
  print("lateness_us", results.lateness_us);
  std::printf("}\n");
}

}  // namespace drive
