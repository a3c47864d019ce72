// A service for `http(url="http://localhost:8000/search", catalogue="http://localhost:8000/tools")`.
const words = text => new Set(text.toLowerCase().split(/\s+/).filter(Boolean));
let tools = [];

require("http").createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const asked = JSON.parse(Buffer.concat(parts));
  let found = [];
  if (request.url === "/tools") {
    tools = asked.tools.map(tool => ({ id: tool.id, words: words(tool.text) }));
  } else {
    const query = [...words(asked.query)];
    found = tools.map(tool => ({ id: tool.id, score: query.filter(word => tool.words.has(word)).length }));
    found.sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
  }
  response.end(JSON.stringify({ tools: found.slice(0, asked.limit) }));
}).listen(Number(process.argv[2] || 8000), "127.0.0.1");
