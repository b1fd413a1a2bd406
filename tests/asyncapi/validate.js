// Reads an AsyncAPI document from standard input with @asyncapi/parser; prints what it found, as JSON.
"use strict";

const { createRequire } = require("module");
const { Parser } = createRequire(process.argv[2] + "/")("@asyncapi/parser");

let text = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (part) => (text += part));
process.stdin.on("end", async () => {
  const { document, diagnostics } = await new Parser().parse(text);
  const channels = document ? document.channels().all().map((one) => one.address()) : [];
  const messages = document ? document.allMessages().all().map((one) => one.payload() !== undefined) : [];
  process.stdout.write(JSON.stringify({
    channels,
    messages,
    operations: document ? document.operations().all().map((one) => one.action()) : [],
    diagnostics: diagnostics.map(({ code, message, path, severity }) => ({ code, message, path, severity })),
  }));
});
