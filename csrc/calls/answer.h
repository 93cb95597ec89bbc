// The answer side of a call: response headers, DATA, trailers.
#pragma once
#include <nghttp2/nghttp2.h>

#include "calls/call.h"

namespace fastqps::front {

class FrontDoor;

// What differs from a plain gRPC status in a refusal.
struct RefusalHeaders {
  u16 http_status = 200;
  bool allow_post = false;
  bool accept_encoding = false;
  bool bearer = false;  // a token would help
};

// Ends the call: after its messages, or trailers-only.
void finish_call(FrontDoor& door, Call& call, const Status& status, const RefusalHeaders& headers = {});
// The deadline of a finished call has passed before the client's windows let its answer go.
void expire_answer(FrontDoor& door, Call& call);
// Submits the response headers; the messages follow as nghttp2 asks for them.
void start_answer(FrontDoor& door, Call& call);
// There are messages again, or the end.
void resume_answer(Call& call);
// Gives back what the answer side holds.
void release_answer(FrontDoor& door, Call& call);
// DATA for nghttp2.
ssize_t answer_read(nghttp2_session* session, i32 stream, u8* out, size_t room, u32* flags, nghttp2_data_source* source,
                    void* connection);
int answer_send(nghttp2_session* session, nghttp2_frame* frame, const u8* frame_header, size_t bytes,
                nghttp2_data_source* source, void* connection);

}  // namespace fastqps::front
