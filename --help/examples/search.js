// A retriever for `command(run="node search.js")`: it ranks tools by the words that they share with the query.
const fs = require("fs");
const words = text => new Set(text.toLowerCase().split(/\s+/).filter(Boolean));
const lines = fs.readFileSync(process.env.BENCH_TOOLS, "utf8").trim().split("\n");
const tools = lines.map(JSON.parse).map(tool => ({ id: tool.id, words: words(tool.text) }));

require("readline").createInterface({ input: process.stdin }).on("line", line => {
  const asked = JSON.parse(line), query = [...words(asked.query)];
  const scored = tools.map(tool => ({ id: tool.id, score: query.filter(word => tool.words.has(word)).length }));
  scored.sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
  console.log(JSON.stringify({ id: asked.id, tools: scored.slice(0, asked.limit).map(tool => tool.id) }));
});
