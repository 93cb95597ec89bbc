// k6 over HTTP: checks every answer of OpenAI's, TEI's and the Open Inference Protocol's routes; a failed check fails the run.
import http from "k6/http";
import { check } from "k6";

export const options = { vus: 8, iterations: 400, thresholds: { checks: ["rate==1"], http_req_failed: ["rate==0"] } };
const text = __ENV.TEXT;
const expected = JSON.parse(__ENV.VECTOR);

function near(vector) {
  return vector.length === expected.length && vector.every((value, i) => Math.abs(value - expected[i]) <= 1e-5);
}

function post(path, body) {
  return http.post(`http://${__ENV.HTTP}${path}`, JSON.stringify(body), { headers: { "Content-Type": "application/json" } });
}

export default function () {
  const openai = post("/v1/embeddings", { model: "wordllama", input: text });
  check(openai, { openai: (answer) => answer.status === 200 && near(answer.json().data[0].embedding) });
  const tei = post("/embed", { inputs: text, normalize: false });
  check(tei, { tei: (answer) => answer.status === 200 && near(answer.json()[0]) });
  const inputs = [{ name: "text", datatype: "BYTES", shape: [1], data: [text] }];
  const oip = post("/v2/models/wordllama/infer", { inputs });
  check(oip, { oip: (answer) => answer.status === 200 && near(answer.json().outputs[0].data) });
}
