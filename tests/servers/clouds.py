"""A server for tests that imitates the identity services and stores of the clouds. It gives a token to clients on the
machine and to clients with the right key. Clients with a token may read the objects. The server prints its port.

    clouds.py FOLDER [tls]      writes account.json (the key of a service account) and, with tls, the certificate ca.pem

The buckets (S3 and Google) and the container (Azure) have the objects of OBJECTS. /web/NAME serves them without a
token. /gcs needs a token of the metadata server or of the service account, /aws the credentials of the machine, of the
pod or of the role, and /acc/blobs the token of the managed identity. Objects that were put are at /put/NAME.
"""

import base64
import datetime
import json
import ssl
import sys
import time
import urllib.parse
from pathlib import Path

import plain
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

OBJECTS = {"in/a.txt": b"1", "in/b.txt": b"22"}
TOKEN = "hushhush-token"
POD_TOKEN, WEB_TOKEN, HEADER = "hushhush-pod", "hushhush-web", "hushhush-header"
put = {}


class Handler(plain.Handler):
    def json(self, content):
        self.answer(200, json.dumps(content).encode(), [("Content-Type", "application/json")])

    def has(self, name, value):
        return self.headers.get(name) == value

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
        path = urllib.parse.unquote(url.path)
        place, _, name = path.lstrip("/").partition("/")
        if path == "/computeMetadata/v1/instance/service-accounts/default/token" and self.has("Metadata-Flavor", "Google"):
            return self.json({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
        if path == "/msi/token" and self.has("x-identity-header", HEADER):
            return self.json({"access_token": TOKEN, "expires_on": str(int(time.time()) + 3600)})
        if path.startswith("/latest/meta-data/iam/security-credentials") and self.has("X-aws-ec2-metadata-token", TOKEN):
            return self.answer(200, b"role") if path.endswith("/") else self.json(credentials())
        if path == "/pod" and self.has("Authorization", POD_TOKEN):
            return self.json(credentials())
        if place == "put" and name in put:
            return self.answer(200, put[name])
        if place not in ("web", "gcs", "aws", "acc"):
            return self.answer(404, b"no such thing")
        if not self.may_enter(place):
            return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        if query.get("comp") == "list" or "list-type" in query:
            return self.listed(place, query.get("prefix", ""))
        name = name.removeprefix("blobs/")
        if name not in OBJECTS:
            return self.answer(404, b"no such thing")
        body = OBJECTS[name]
        return self.answer(200, body, [("ETag", plain.tag(body)), ("Last-Modified", plain.MODIFIED)])

    def may_enter(self, place):
        given = self.headers.get("Authorization", "")
        if place == "gcs":
            return given == f"Bearer {TOKEN}" or is_signed(given.removeprefix("Bearer "))
        if place == "aws":
            return "Credential=AKIDOFMACHINE/" in given and self.has("x-amz-security-token", TOKEN)
        return place == "web" or given == f"Bearer {TOKEN}"

    def listed(self, place, prefix):
        names = [name for name in OBJECTS if name.startswith(prefix)]
        if place == "acc":
            text = plain.blobs((name, OBJECTS[name]) for name in names)
        else:
            items = "".join(
                f"<Contents><Key>{name}</Key><LastModified>2025-01-01T00:00:00.000Z</LastModified><ETag>{plain.tag(OBJECTS[name])}</ETag><Size>{len(OBJECTS[name])}</Size></Contents>"
                for name in names
            )
            text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{items}</ListBucketResult>"
        self.answer(200, text.encode(), [("Content-Type", "application/xml")])

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if path == "/latest/api/token":
            return self.answer(200, TOKEN.encode())
        place, _, name = path.lstrip("/").partition("/")
        if not self.may_enter(place):
            return self.answer(403)
        put[name] = body
        self.answer(200, b"", [("ETag", plain.tag(body))])

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        form = {name: values[0] for name, values in (query | form).items()}
        if form.get("Action") != "AssumeRoleWithWebIdentity" or form.get("WebIdentityToken") != WEB_TOKEN:
            return self.answer(403, b"<Error/>")
        given = credentials()
        text = f"<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><SessionToken>{given['Token']}</SessionToken><SecretAccessKey>{given['SecretAccessKey']}</SecretAccessKey><AccessKeyId>{given['AccessKeyId']}</AccessKeyId><Expiration>{given['Expiration']}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        self.answer(200, text.encode())


def credentials():
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    return {
        "AccessKeyId": "AKIDOFMACHINE",
        "SecretAccessKey": "hushhush-secret",
        "Token": TOKEN,
        "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def is_signed(token):
    """Whether the service account has signed the token, and the token has not expired."""
    parts = token.split(".")
    if len(parts) != 3:
        return False
    head, claims, signature = (base64.urlsafe_b64decode(part + "==") for part in parts)
    signed = ".".join(parts[:2]).encode()
    try:
        key.public_key().verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    except Exception:
        return False
    claims = json.loads(claims)
    return json.loads(head)["alg"] == "RS256" and claims["iss"] == "me@project" and claims["exp"] > time.time()


def write_key(path):
    account = {"type": "service_account", "private_key": private(key).decode(), "private_key_id": "1", "client_email": "me@project"}
    path.write_text(json.dumps(account))


def tls(folder):
    """A TLS context with a certificate for localhost, signed by a new authority."""
    own, authority = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    leaf = certificate("clouds", own, authority, x509.BasicConstraints(ca=False, path_length=None), names)
    root = certificate("authority", authority, authority, x509.BasicConstraints(ca=True, path_length=None))
    (folder / "ca.pem").write_bytes(root)
    (folder / "tls.pem").write_bytes(leaf + private(own))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.pem")
    return context


def certificate(name, own, authority, *extensions):
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    subject, issuer = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, it)]) for it in (name, "authority"))
    serial = x509.random_serial_number()
    made = x509.CertificateBuilder(issuer, subject, own.public_key(), serial, now - day, now + day)
    for extension in extensions:
        made = made.add_extension(extension, critical=False)
    return made.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def private(own):
    return own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


folder, is_secure = Path(sys.argv[1]), sys.argv[2:] == ["tls"]
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
write_key(folder / "account.json")
server = plain.Server(("127.0.0.1", 0), Handler)
if is_secure:
    server.socket = tls(folder).wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_address[1], flush=True)
server.serve_forever()
