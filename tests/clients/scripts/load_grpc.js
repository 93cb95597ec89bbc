// k6 over gRPC: learns the methods from the server's reflection, and checks every answer.
import grpc from "k6/net/grpc";
import { check } from "k6";

export const options = { vus: 4, iterations: 200, thresholds: { checks: ["rate==1"] } };
const expected = JSON.parse(__ENV.VECTOR);
const client = new grpc.Client();
let connected = false;

// k6 keeps the messages of all its users in one registry, and two that learn them at the same time break it.
export function setup() {
  client.connect(__ENV.GRPC, { plaintext: true, reflect: true });
  client.close();
}

export default function () {
  if (!connected) {
    client.connect(__ENV.GRPC, { plaintext: true, reflect: true });
    connected = true;
  }
  const answer = client.invoke("tei.v1.Embed/Embed", { inputs: __ENV.TEXT, normalize: false });
  check(answer, {
    tei: ({ status, message }) =>
      status === grpc.StatusOK && message.embeddings.every((value, i) => Math.abs(value - expected[i]) <= 1e-5),
  });
}
