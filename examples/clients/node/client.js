// Predict and PredictStream of a fastqps server. README.md says how to run it.
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [proto, address] = process.argv.slice(2);
const { PredictService } = grpc.loadPackageDefinition(
  loader.loadSync(proto, { longs: Number, enums: String, defaults: true })).fastqps.v1;
const client = new PredictService(address, grpc.credentials.createInsecure());
const inFiveSeconds = () => ({ deadline: Date.now() + 5000 });

client.Predict({ text: "a text" }, new grpc.Metadata(), inFiveSeconds(), (error, answer) => {
  if (error) { // RESOURCE_EXHAUSTED says in its trailer grpc-retry-pushback-ms when to come back
    console.error(error.message);
    process.exit(1);
  }
  const values = answer.embedding.values;
  console.log("predict", values.length, values.slice(0, 3));
  stream(["a text", "another"]);
});

function stream(lines) {
  const call = client.PredictStream(new grpc.Metadata(), inFiveSeconds());
  call.on("data", (answer) => { // in the order in which they finish
    const { code, message } = answer.status ?? {};
    console.log("stream", answer.requestId, code ? message : answer.embedding.values.slice(0, 3));
  });
  call.on("error", (error) => {
    console.error(error.message);
    process.exit(1);
  });
  call.on("end", () => client.close());
  lines.forEach((text, requestId) => call.write({ requestId, text }));
  call.end();
}
