// Reads AsyncAPI documents, an array of texts, from standard input with @asyncapi/parser; prints what it found of each, as JSON.
"use strict";

const { createRequire } = require("module");
const { Parser } = createRequire(process.argv[2] + "/")("@asyncapi/parser");

async function found(parser, text) {
  const { document, diagnostics } = await parser.parse(text);
  const all = (of) => (document ? of(document).all() : []);
  return {
    channels: all((one) => one.channels()).map((one) => one.address()),
    messages: all((one) => one.allMessages()).map((one) => one.payload() !== undefined),
    operations: all((one) => one.operations()).map((one) => one.action()),
    diagnostics: diagnostics.map(({ code, message, path, severity }) => ({ code, message, path, severity })),
  };
}

let input = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (part) => (input += part));
process.stdin.on("end", async () => {
  const parser = new Parser();
  const answers = [];
  for (const text of JSON.parse(input)) answers.push(await found(parser, text));
  process.stdout.write(JSON.stringify(answers));
});
