"""The embedded S3-compatible server (ministack) and the bucket in it."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from local_stack.loopback_http import expect_ok
from local_stack.ports import LOOPBACK
from local_stack.processes import Command

BUCKET = "granary"
REGION = "us-east-1"  # with "auto", as R2 has it, ministack refuses to make a bucket


@dataclass(frozen=True)
class Bucket:
    """ministack with S3 only. It accepts any access key and none, so the keys protect nothing."""

    port: int
    data_dir: Path
    access_key_id: str
    secret_access_key: str
    name: str = "bucket"

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def prepare(self) -> None:
        """Makes its folders."""
        for folder in ("objects", "state", "tmp"):
            (self.data_dir / folder).mkdir(mode=0o700, parents=True, exist_ok=True)

    def command(self) -> Command:
        settings = {
            "BIND_HOST": LOOPBACK,
            "GATEWAY_PORT": str(self.port),
            "SERVICES": "s3",
            # Otherwise it also listens on 0.0.0.0:8883 and, with SFTP servers, on more.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(self.data_dir / "objects"),
            "PERSIST_STATE": "1",
            "STATE_DIR": str(self.data_dir / "state"),
            "TMPDIR": str(self.data_dir / "tmp"),
            # It removes containers that look like its own, also those of another ministack.
            "DOCKER_HOST": f"unix://{self.data_dir}/no-docker",
            "LOG_LEVEL": "WARNING",
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "MINISTACK_REGION": REGION,
        }
        return Command([sys.executable, "-m", "ministack"], os.environ | settings)

    def check(self) -> None:
        """Raises OSError or HTTPException unless ListBuckets is answered."""
        expect_ok(self.port, "/")

    def furnish(self) -> None:
        """Makes the bucket unless it is there. Raises as `check` does."""
        if f"<Name>{BUCKET}</Name>".encode() not in expect_ok(self.port, "/"):
            expect_ok(self.port, f"/{BUCKET}", "PUT")
