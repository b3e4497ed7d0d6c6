"""Shared code of the servers in this folder: a handler without logs, answers of stores, and a concurrent server."""

import hashlib
import html
import http.server

MODIFIED = "Wed, 01 Jan 2025 00:00:00 GMT"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


def tag(body):
    """The ETag of this content, as in a header."""
    return f'"{hashlib.sha256(body).hexdigest()[:16]}"'


def blobs(objects):
    """Azure's listing of these objects, which are pairs of name and content."""
    listed = "".join(
        f"<Blob><Name>{name}</Name><Properties><Last-Modified>{MODIFIED}</Last-Modified><Etag>{html.escape(tag(body))}</Etag><Content-Length>{len(body)}</Content-Length><Content-Type>text/plain</Content-Type></Properties></Blob>"
        for name, body in objects
    )
    return f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>{listed}</Blobs><NextMarker/></EnumerationResults>'
