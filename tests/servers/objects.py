"""An object server for tests: a web server with ranges and ETags, which imitates the usual faults of servers. It
also has a token endpoint, an Azure container that needs the token, and an S3 bucket with many objects. It prints
its port.

    /any/NAME               an object
    /any/FAULT.NAME         the same, but the first three requests for it fail in this way
    /any/never.FAULT.NAME   the same, but all requests fail
    /any/withheld.NAME      answers GET only after a test posts to /release
    /any/closed.NAME        refused until a test posts to /release
    /any/headless.NAME      refuses HEAD
    /any/here.NAME          redirects to this server
    /any/away.NAME          redirects to another host name
    /guarded/NAME           needs the bearer token from POST /TENANT/oauth2/v2.0/token with the right secret
    /acc/blobs              an Azure container, which needs the same token
    /many/                  an S3 bucket with COUNT objects
    /requests               the number of requests for each path

HEAD requests count toward the first three. They succeed anyway, except with the fault `denied`.
"""

import collections
import json
import re
import socket
import struct
import sys
import threading
import time
import urllib.parse

import plain

FAULTS = ("error", "throttle", "busy", "denied", "reset", "short", "slow")
SECRET, TOKEN = "hushhush-client-secret", "hushhush-token"
seen = collections.Counter()
released = threading.Event()
count = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def content(name):
    number = re.search(r"-(\d+)", name)
    lines = int(number[1]) if number else 3
    return "".join(f"{name} {i}\n" for i in range(lines)).encode()


class Handler(plain.Handler):
    def do_POST(self):
        if self.path == "/release":
            released.set()
            return self.answer(200, b"")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = urllib.parse.parse_qs(body)
        if form.get("client_secret") != [SECRET]:
            return self.answer(401, b'{"error": "invalid_client"}')
        token = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
        self.answer(200, json.dumps(token).encode(), [("Content-Type", "application/json")])

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        parts = urllib.parse.unquote(url.path).strip("/").split("/")
        if parts == ["requests"]:
            return self.answer(200, json.dumps(seen).encode())
        seen[f"{self.command} {url.path}"] += 1
        seen[url.path] += 1
        if parts[0] == "many":
            return self.many(query)
        if parts[0] in ("guarded", "acc") and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, b"<Error><Code>NoAuthenticationInformation</Code></Error>")
        if parts[0] == "acc" and query.get("comp") == ["list"]:
            return self.blobs(query)
        if parts[0] == "acc":
            return self.object(parts[-1])
        words = parts[-1].split(".")
        if words[0] == "withheld" and self.command == "GET":
            released.wait()
        if words[0] == "closed" and not released.is_set():
            return self.answer(403, b"closed")
        if words[0] in ("here", "away") and url.query != "on":
            host = "127.0.0.1" if words[0] == "here" else "localhost"
            to = f"http://{host}:{self.server.server_address[1]}{url.path}?on"
            return self.answer(302, b"", [("Location", to)])
        if words[0] == "headless" and self.command == "HEAD":
            return self.answer(405, b"")
        never = words[0] == "never"
        fault = words[1 if never else 0]
        if fault in FAULTS and (never or seen[url.path] <= 3):
            return self.fail(fault, parts[-1])
        self.object(parts[-1])

    def object(self, name):
        if name.startswith("gone"):
            return self.answer(404, b"no such thing")
        body = content(name)
        tag = plain.tag(body)
        headers = [("ETag", tag), ("Last-Modified", plain.MODIFIED)]
        wanted = self.headers.get("If-Match")
        if wanted and wanted != tag:
            return self.answer(412, b"")
        if self.headers.get("Range"):
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            first, last = int(first), int(last or len(body) - 1)
            headers.append(("Content-Range", f"bytes {first}-{last}/{len(body)}"))
            return self.answer(206, body[first : last + 1], headers)
        self.answer(200, body, headers)

    def fail(self, fault, name):
        if self.command == "HEAD" and fault != "denied":
            return self.object(name)
        self.close_connection = True
        body = content(name)
        if fault == "error":
            return self.answer(500, b"it broke")
        if fault == "throttle":
            return self.answer(503, b"SlowDown")
        if fault == "busy":
            return self.answer(429, b"later")
        if fault == "denied":
            return self.answer(403, f"no: {self.headers.get('Authorization')}".encode())
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return None
        # "short" and "slow" begin with one half of the object.
        tag = plain.tag(body)
        self.send_response(200)
        self.send_header("ETag", tag)
        self.send_header("Last-Modified", plain.MODIFIED)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        if fault == "slow":
            time.sleep(1)
            self.wfile.write(body[len(body) // 2 :])
        return None

    def blobs(self, query):
        names = ["in/a-1.txt", "in/b-2.txt", "in/c-3.csv", "other/d-1.txt"]
        names = [name for name in names if name.startswith(query.get("prefix", [""])[0])]
        text = plain.blobs((name, content(name.split("/")[-1])) for name in names)
        self.answer(200, text.encode(), [("Content-Type", "application/xml")])

    def many(self, query):
        start = int(query.get("continuation-token", ["0"])[0])
        end = min(start + 1000, count)
        items = "".join(
            f"<Contents><Key>in/{i // 1000:04}/{i:07}.txt</Key><LastModified>2025-01-01T00:00:00.000Z</LastModified><ETag>&quot;{i}&quot;</ETag><Size>10</Size></Contents>"
            for i in range(start, end)
        )
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{end}</NextContinuationToken>" if end < count else "<IsTruncated>false</IsTruncated>"
        self.answer(200, f"<ListBucketResult>{more}{items}</ListBucketResult>".encode())


server = plain.Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
