"""Puts a blob into a container of an Azure Blob Storage server, and creates the container first:
put_blob.py ENDPOINT ACCOUNT KEY CONTAINER NAME CONTENT."""

import base64
import hashlib
import hmac
import sys
import urllib.error
import urllib.parse
import urllib.request
from email.utils import formatdate

endpoint, account, key, container, name, content = sys.argv[1:]


def put(path, query, body, headers):
    headers = {**headers, "x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    canonical = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    # The account occurs twice: as the name, and at the beginning of the path.
    resource = f"/{account}/{account}/{path}" + "".join(f"\n{k}:{v}" for k, v in sorted(query.items()))
    length = str(len(body)) if body else ""
    kind = "text/plain"
    text = f"PUT\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\n{canonical}{resource}"
    signature = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(signature).decode()}"
    headers["Content-Type"] = kind
    url = f"{endpoint}/{path}?{urllib.parse.urlencode(query)}"
    return urllib.request.urlopen(urllib.request.Request(url, body, headers, method="PUT"))


try:
    put(container, {"restype": "container"}, b"", {})
except urllib.error.HTTPError as error:
    # 409: the container already exists.
    if error.code != 409:
        sys.exit(f"{error}: {error.read()}")
try:
    put(f"{container}/{name}", {}, content.encode(), {"x-ms-blob-type": "BlockBlob"})
except urllib.error.HTTPError as error:
    sys.exit(f"{error}: {error.read()}")
