// Every bound of the transport, with its default. The numbers and their reasons: docs/frontdoor.md.
#pragma once
#include "contract/settings.h"

namespace fastqps::transport {

inline constexpr u64 kSecond = 1'000'000'000;
inline constexpr u64 kMillisecond = 1'000'000;
inline constexpr u64 kNever = ~u64(0);

// The limits of streams that have no end of their own.
struct StandingLimit {
  u32 connection, door;
};

struct Limits {
  DoorSettings settings{};
  // requests
  u32 control_message_bytes = 16 << 10;  // of health checks, load reports, reflection and model metadata
  u32 header_list_bytes = 16384;
  u32 header_fields = 100;
  u64 reassembly_bytes = 256 << 20;  // of the whole process
  u32 calls = 16384;                 // of the whole process; more streams are refused
  u32 rejected_body_bytes = 64 << 10;
  // a connection
  u32 streams = 1024;  // SETTINGS_MAX_CONCURRENT_STREAMS; 2 × this many with those that have gone but are held
  u32 stream_window = 1 << 20;  // bytes
  u32 connection_window = 16 << 20;
  u32 unsent_bytes = 256 << 10;  // more than this waits for the socket: the connection is not read from
  u32 call_unsent_bytes =
      256 << 10;                 // more than this waits for the client: the call is not writable, its stream not read
  u32 answer_bytes = 4 << 20;    // more than this waits for the client's windows: new requests are refused
  u64 unread_bytes = 256 << 20;  // memory of answers in the whole process; then a connection keeps its share of it
  u32 queued_frames = 2000;      // in nghttp2
  u32 read_bytes = 16 << 10;     // one read a turn
  u32 connections = 0;           // 0: RLIMIT_NOFILE − 64; three quarters of them of one peer
  u32 handshakes = 1024;         // under way at once; others wait
  // a turn
  u32 turn_requests = 256;
  u64 turn_work_ns = 500'000;        // of reading and delivering; what is left waits for the next turn
  u64 connection_work_ns = 250'000;  // of one connection: more than the small messages of one read take
  u64 crowd_work_ns = 50'000;  // the same, at least, when many others are ready; of all unfinished ones in a crowd
  u32 turn_accepts = 16;
  u32 turn_handshakes = 4;  // steps of TLS handshakes: a signature takes as long as hundreds of calls
  u32 turn_hellos = 64;     // looks at those that have not begun
  u32 events = 64;
  // time, in ns
  u64 settings_timeout = 10 * kSecond;  // from the accept, a TLS handshake included
  u64 handshake_patience = kSecond;     // with a client whose place another waits for; the more wait, the less
  u64 stranger_patience = kSecond;   // with a client that has not asked yet, where others could make room for new ones
  u64 handshake_wait = 2 * kSecond;  // for a place; when the first waits longer, the last comes first
  u64 header_block_timeout = 10 * kSecond;
  u64 message_timeout = 30 * kSecond;  // from a message's first byte, and longer by what has come at this rate:
  u32 message_bytes_per_s = 16 << 10;
  u64 write_timeout = 20 * kSecond;   // without a byte of progress
  u64 unread_patience = kSecond;      // with a connection over its share that takes nothing, when little is left
  u64 window_timeout = 60 * kSecond;  // a stream that the client's windows block
  u64 rejected_timeout = kSecond;     // until a refused request's END_STREAM
  u64 linger_timeout = kSecond;
  u64 keepalive_idle = 7200 * kSecond;
  u64 keepalive_timeout = 20 * kSecond;
  u64 ping_interval_min = 8 * kSecond;
  u32 ping_strikes = 2;
  u64 age_grace = 30 * kSecond;
  u64 idle_max = 3600 * kSecond;        // 0: none
  u64 stream_idle_when_full = kSecond;  // instead of the setting, while nearly all calls are in use
  u64 sleep_max = 100 * kMillisecond;
  u64 spin = 0;
  // floods
  u32 settings_per_10s = 20;
  u32 resets_per_10s = 2000;
  u32 idle_read_bytes = 1 << 20;  // read without a header block or a message byte
  u32 rare_calls = 256;
  StandingLimit watches = {256, 4096};  // of health: a proxy brings those of many clients by one connection
  StandingLimit reports = {16, 1024};   // of load: a client has one for each connection
};

}  // namespace fastqps::transport
