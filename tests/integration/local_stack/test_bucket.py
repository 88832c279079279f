import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local_stack import processes
from local_stack.bucket import BUCKET, Bucket
from local_stack.stack import Stack

MakeStack = Callable[..., Stack]


def client(stack: Stack) -> Any:
    variables = stack.environment()
    return boto3.client(
        "s3",
        endpoint_url=variables["S3_ENDPOINT_URL"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        region_name=variables["AWS_DEFAULT_REGION"],
        config=Config(retries={"max_attempts": 0}, proxies={}),
    )


def pid_of(stack: Stack) -> int:
    (pid,) = (service.pid for service in stack.status() if service.name == "bucket")
    assert pid
    return pid


def stop_it(stack: Stack) -> None:
    assert stack.stop() == ["bucket"]


def kill_it(stack: Stack) -> None:
    identity = processes.Identity.of(pid_of(stack))
    psutil.Process(identity.pid).send_signal(signal.SIGKILL)
    assert processes.wait_until_gone([identity], 5)


@pytest.mark.parametrize("end", [stop_it, kill_it])
def test_objects_and_the_bucket_survive(end: Callable[[Stack], None], make_stack: MakeStack) -> None:
    with make_stack("bucket") as stack:
        client(stack).put_object(Bucket=BUCKET, Key="원본/a.json", Body=b"{}", ContentType="application/json")
        end(stack)
        stack.start()
        found = client(stack).get_object(Bucket=BUCKET, Key="원본/a.json")
        assert (found["Body"].read(), found["ContentType"]) == (b"{}", "application/json")


def test_the_empty_bucket_is_there_again_after_a_kill(make_stack: MakeStack) -> None:
    with make_stack("bucket") as stack:
        kill_it(stack)
        stack.start()
        assert client(stack).list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def test_an_object_is_written_once_when_asked_to_be(make_stack: MakeStack) -> None:
    with make_stack("bucket") as stack:
        s3 = client(stack)
        s3.put_object(Bucket=BUCKET, Key="marker", Body=b"first", IfNoneMatch="*")
        with pytest.raises(ClientError, match="PreconditionFailed"):
            s3.put_object(Bucket=BUCKET, Key="marker", Body=b"second", IfNoneMatch="*")
        assert s3.get_object(Bucket=BUCKET, Key="marker")["Body"].read() == b"first"


def test_it_listens_on_loopback_alone(make_stack: MakeStack) -> None:
    with make_stack("bucket") as stack:
        client(stack).list_buckets()
        listening = [
            connection.laddr
            for process in processes.tree(psutil.Process(pid_of(stack)))
            for connection in process.net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN or not connection.raddr
        ]
        assert [address.ip for address in listening] == ["127.0.0.1"]


def test_it_keeps_away_from_docker_and_writes_into_its_own_folder(tmp_path: Path) -> None:
    environment = Bucket(12345, tmp_path / "bucket", "key", "secret").command().environment
    assert environment["DOCKER_HOST"] == f"unix://{tmp_path}/bucket/no-docker"
    for name in ("S3_DATA_DIR", "STATE_DIR", "TMPDIR"):
        assert Path(environment[name]).parent == tmp_path / "bucket"
