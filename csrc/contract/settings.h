// The settings of a front door, as the supervisor writes them into the JSON of its child: fastqps/supervisor/workers/
// frontdoor_slot.py. A setting is a member and a row of kFields here, and a row of fastqps/config/settings.py, which
// explains it. Every member is always given; the defaults are those of tests.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "contract/types.h"

namespace fastqps {

struct DoorSettings {
  i32 listener_fd = -1, http_fd = -1;
  u32 max_message_bytes = 4 << 20;
  u32 max_tokenize_bytes = 2 << 20;  // of texts to tokenize, and of ids to decode
  u32 max_request_items = 2048;
  u32 max_stream_inflight = 1024;
  std::vector<std::pair<std::string, u32>> aliases{};         // more names of models, by their numbers
  bool any_model_name = false;                                // of the only model, whatever a request calls it
  bool cors = false;                                          // pages of other sites may read answers of plain HTTP
  std::string predict_route = "", health_route = "";          // more paths of /vertex and /health; empty: none
  std::string compute_type = "cpu";                           // where models run, as the header x-compute-type says it
  std::optional<bool> auto_truncate{};                        // none: as each API has it
  u64 default_timeout_ns = 10'000'000'000;                    // of a request that names none; 0: no limit
  u64 max_timeout_ns = 600'000'000'000;                       // of any request, and of a whole call; 0: no limit
  u64 max_connection_age_ns = 1800'000'000'000;               // ± 10 %; 0: none
  u64 stream_idle_timeout_ns = 300'000'000'000;               // without a message and with nothing to answer; 0: none
  u64 canary_interval_ns = 0;                                 // 0: none
  std::string tenant_header = "fastqps-tenant";               // empty: clients name no tenants
  std::vector<std::pair<std::string, u32>> tenant_weights{};  // by name; 1 of all others
  bool rerun = true;
  bool load_reports = false;            // in the trailers of answers
  double access_log = 0;                // share of calls that have a line in the log
  std::optional<double> trace_ratio{};  // share of calls to trace if the client has not decided; none: no tracing

  static constexpr auto kFields = std::tuple{std::pair{"listener_fd", &DoorSettings::listener_fd},
                                             std::pair{"http_fd", &DoorSettings::http_fd},
                                             std::pair{"max_message_bytes", &DoorSettings::max_message_bytes},
                                             std::pair{"max_tokenize_bytes", &DoorSettings::max_tokenize_bytes},
                                             std::pair{"max_request_items", &DoorSettings::max_request_items},
                                             std::pair{"max_stream_inflight", &DoorSettings::max_stream_inflight},
                                             std::pair{"aliases", &DoorSettings::aliases},
                                             std::pair{"any_model_name", &DoorSettings::any_model_name},
                                             std::pair{"cors", &DoorSettings::cors},
                                             std::pair{"predict_route", &DoorSettings::predict_route},
                                             std::pair{"health_route", &DoorSettings::health_route},
                                             std::pair{"compute_type", &DoorSettings::compute_type},
                                             std::pair{"auto_truncate", &DoorSettings::auto_truncate},
                                             std::pair{"default_timeout_ns", &DoorSettings::default_timeout_ns},
                                             std::pair{"max_timeout_ns", &DoorSettings::max_timeout_ns},
                                             std::pair{"max_connection_age_ns", &DoorSettings::max_connection_age_ns},
                                             std::pair{"stream_idle_timeout_ns", &DoorSettings::stream_idle_timeout_ns},
                                             std::pair{"canary_interval_ns", &DoorSettings::canary_interval_ns},
                                             std::pair{"tenant_header", &DoorSettings::tenant_header},
                                             std::pair{"tenant_weights", &DoorSettings::tenant_weights},
                                             std::pair{"rerun", &DoorSettings::rerun},
                                             std::pair{"load_reports", &DoorSettings::load_reports},
                                             std::pair{"access_log", &DoorSettings::access_log},
                                             std::pair{"trace_ratio", &DoorSettings::trace_ratio}};
};

// What is wrong with the JSON of a child; empty: nothing.
std::string read_settings(std::string_view json, DoorSettings& to);

}  // namespace fastqps
