"""Credentials: with the clients' own errors, and up to the command."""

import pytest

from starmill import cli
from starmill.schema import errors, storage
from starmill.schema.stores import credentials


def test_a_store_without_credentials_is_a_config_error_at_once(monkeypatch):
    botocore = pytest.importorskip("botocore.exceptions")
    calls = []

    def refuse():
        calls.append(1)
        raise botocore.NoCredentialsError

    with pytest.raises(errors.ConfigError) as raised:
        storage.retry(refuse, "listing s3://bucket/data")
    assert str(raised.value).startswith("listing s3://bucket/data: no credentials")
    assert "AWS_ACCESS_KEY_ID" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(calls) == 1


def test_google_answers_to_an_anonymous_caller():
    exceptions = pytest.importorskip("gcsfs.retry")
    error = exceptions.HttpError(
        {"code": 401, "message": "Anonymous caller does not have storage.objects.list"}
    )
    assert "gcloud auth application-default login" in credentials.problem(error)


def test_google_default_credentials():
    exceptions = pytest.importorskip("google.auth.exceptions")
    error = exceptions.DefaultCredentialsError("File /x was not found.")
    assert "GOOGLE_APPLICATION_CREDENTIALS" in credentials.problem(error)


def test_a_refused_key_is_found_behind_the_clients_own_error():
    botocore = pytest.importorskip("botocore.exceptions")
    inner = botocore.ClientError({"Error": {"Code": "InvalidAccessKeyId"}}, "List")
    outer = PermissionError("The AWS key is wrong")
    outer.__cause__ = inner
    assert "AWS_PROFILE" in credentials.problem(outer)


@pytest.mark.parametrize(
    "error",
    [PermissionError(13, "Permission denied"), OSError("503"), FileNotFoundError()],
)
def test_other_errors_are_not_about_credentials(error):
    assert credentials.problem(error) is None


COMMANDS = {
    "generate": [
        *("generate", "--replays", "s3://starmill-test/replays", "--sc2", "skirmish"),
        *("--selection", "skirmish", "--output", "s3://starmill-test/data"),
    ],
    "verify": ["verify", "s3://starmill-test/data"],
    "export": [
        *("export", "s3://starmill-test/data", "--format", "npz"),
        *("--out", "s3://starmill-test/out"),
    ],
    "index": ["index", "s3://starmill-test/x", "--out", "s3://starmill-test/i.parquet"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_end_before_their_job_with_one_line(
    name, monkeypatch, tmp_path, capsys
):
    s3fs = pytest.importorskip("s3fs")
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    # Nothing is asked: not the machine's service of roles, and not the real store.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3fs.S3FileSystem.clear_instance_cache()
    storage.filesystem_of.cache_clear()
    assert cli.main(COMMANDS[name]) == 2
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if "ConfigError" in line]
    assert len(lines) == 1, shown.err
    assert "no credentials" in lines[0]
    assert "s3://starmill-test" in lines[0]
    s3fs.S3FileSystem.clear_instance_cache()
    storage.filesystem_of.cache_clear()
