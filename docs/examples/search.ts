// A retriever for `command(run="npx tsx search.ts")`: it ranks tools by the words that they share with the query.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

type Tool = { id: string; text: string };
type Query = { id: number; query: string; limit: number };

const words = (text: string): Set<string> => new Set(text.toLowerCase().split(/\s+/).filter(Boolean));
const lines: string[] = readFileSync(process.env.BENCH_TOOLS!, "utf8").trim().split("\n");
const tools: Tool[] = lines.map(line => JSON.parse(line));
const texts = new Map<string, Set<string>>(tools.map(tool => [tool.id, words(tool.text)]));

createInterface({ input: process.stdin }).on("line", line => {
  const asked: Query = JSON.parse(line), query = [...words(asked.query)];
  const scored = [...texts].map(([id, known]) => ({ id, score: query.filter(word => known.has(word)).length }));
  scored.sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
  console.log(JSON.stringify({ id: asked.id, tools: scored.slice(0, asked.limit).map(tool => tool.id) }));
});
