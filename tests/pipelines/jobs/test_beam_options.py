import pytest

from starmill.pipelines.jobs import beam_options
from starmill.schema import errors


def test_what_beam_knows_is_kept_and_other_words_are_named():
    words = ["--flink_master=host:8081", "--parallelism=4"]
    assert beam_options.checked("FlinkRunner", words, "verify") == [
        "--runner=FlinkRunner",
        *words,
    ]
    with pytest.raises(errors.ConfigError, match="--flink_mister: .* verify or of"):
        beam_options.checked("FlinkRunner", ["--flink_mister", "x"], "verify")
