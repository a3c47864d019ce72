"""A service for `http(url="http://localhost:8000/search", catalogue="http://localhost:8000/tools")`."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

libraries = {}


class Search(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tools":
            libraries[asked["library"]] = {tool["id"]: set(tool["text"].lower().split()) for tool in asked["tools"]}
        words, query = libraries[asked["library"]], set(asked.get("query", "").lower().split())
        found = sorted(words, key=lambda tool: (-len(query & words[tool]), tool))[: asked.get("limit", 0)]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"tools": found}).encode())


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 8000), Search).serve_forever()
