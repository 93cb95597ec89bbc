// How many of each thing a segment can have, and what there is a fixed number of: classes and stages.
#pragma once
#include "contract/types.h"

namespace fastqps {

inline constexpr u32 kDoorsMax = 32;
inline constexpr u32 kDispatchersMax = 64;  // one bit each in Route::dispatchers
inline constexpr u32 kModelsMax = 16;
inline constexpr u32 kDevicesMax = 64;
inline constexpr u32 kGenerations = 2;  // of one model: the one that serves and the one that is warming or draining
inline constexpr u32 kNameBytes = 64;
inline constexpr u32 kCardBytes = 256 << 10;
inline constexpr u32 kControlEntries = 1024;
inline constexpr u32 kPoisonEntries = 32;
inline constexpr u32 kBusyEntries = 4096;     // at 10,000 steps a second, what the supervisor must read every 0.4 s
inline constexpr u32 kTraceStateBytes = 512;  // of a tracestate: what W3C Trace Context asks to pass on at least

// Request rings: three priorities and the suspects (requests whose dispatcher died twice), which run alone.
enum Class : u32 { kHigh = 0, kNormal = 1, kLow = 2, kSuspect = 3, kClasses = 4 };
inline constexpr u32 kPriorities = kSuspect;
inline constexpr const char* kPriorityNames[kPriorities] = {"high", "normal", "low"};
inline constexpr const char* kClassNames[kClasses] = {"high", "normal", "low", "suspect"};

// The stages of a request, the same words everywhere.
enum Stage : u32 {
  kReceive = 0,
  kParse,
  kTokenize,
  kQueue,
  kGather,
  kLaunch,
  kDevice,
  kScatter,
  kDrain,
  kSend,
  kStages
};
inline constexpr const char* kStageNames[kStages] = {"receive", "parse",  "tokenize", "queue", "gather",
                                                     "launch",  "device", "scatter",  "drain", "send"};

}  // namespace fastqps
