"""Certificates are checked against the host's name, though the connection goes to an address."""

import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from resources.errors import FetchFailed
from resources.guarded_fetch import GuardedFetcher
from tests.integration.resources.served_front_pages import USER_AGENT, NotingNetwork

pytest.importorskip("cryptography")

NAME = "granary.example"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for NAME, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "site.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>secured</title>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def network(certificate: Path) -> Iterator[NotingNetwork]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield NotingNetwork(f"127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()
    thread.join(timeout=10)


def fetcher(network: NotingNetwork, trusted: Path | None) -> GuardedFetcher:
    tls = ssl.create_default_context(cafile=str(trusted)) if trusted else None
    return GuardedFetcher(USER_AGENT, resolve=lambda host, port: ["8.8.8.8"], network=network, tls=tls)


def test_a_certificate_for_the_name_is_accepted(network: NotingNetwork, certificate: Path) -> None:
    page = fetcher(network, certificate).get(f"https://{NAME}/")
    assert (page.url, page.body) == (f"https://{NAME}/", b"<title>secured</title>")
    assert network.asked[-1] == ("8.8.8.8", 443)


def test_a_certificate_for_another_name_is_not(network: NotingNetwork, certificate: Path) -> None:
    for host in ("other.example", "8.8.8.8"):
        with pytest.raises(FetchFailed, match="CERTIFICATE_VERIFY_FAILED"):
            fetcher(network, certificate).get(f"https://{host}/")


def test_a_certificate_that_nobody_vouches_for_is_not(network: NotingNetwork) -> None:
    with pytest.raises(FetchFailed, match="CERTIFICATE_VERIFY_FAILED"):
        fetcher(network, None).get(f"https://{NAME}/")
