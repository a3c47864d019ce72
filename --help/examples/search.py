"""A retriever for `command(run="python search.py")`: it ranks tools by the words that they share with the query."""

import json
import os
import sys

with open(os.environ["BENCH_TOOLS"], encoding="utf-8") as file:
    tools = [json.loads(line) for line in file]
words = {tool["id"]: set(tool["text"].lower().split()) for tool in tools}

for line in sys.stdin:
    asked = json.loads(line)
    query = set(asked["query"].lower().split())
    best = sorted(words, key=lambda tool: (-len(query & words[tool]), tool))[: asked["limit"]]
    print(json.dumps({"id": asked["id"], "tools": best}), flush=True)
