// k6: sends one request again and again, over HTTP or gRPC. A failed check fails the run.
import http from "k6/http";
import grpc from "k6/net/grpc";
import { check } from "k6";

const { HTTP, GRPC, METHOD, BODY, CALLERS, RATE, SECONDS } = __ENV;
const duration = `${SECONDS}s`;
const load = RATE
  ? { executor: "constant-arrival-rate", rate: Number(RATE), preAllocatedVUs: Number(CALLERS), duration }
  : { executor: "constant-vus", vus: Number(CALLERS), duration };
export const options = { scenarios: { load }, thresholds: { checks: ["rate==1"] } };
const headers = { "Content-Type": "application/json" };
const client = new grpc.Client();
let connected = false;

export default function () {
  if (HTTP) {
    check(http.post(HTTP, BODY, { headers }), { ok: (answer) => answer.status === 200 });
    return;
  }
  if (!connected) {
    client.connect(GRPC, { plaintext: true, reflect: true });
    connected = true;
  }
  check(client.invoke(METHOD, JSON.parse(BODY)), { ok: (answer) => answer.status === grpc.StatusOK });
}
