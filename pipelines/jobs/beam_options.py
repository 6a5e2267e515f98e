"""Checks options of Beam before a job starts.

In: words of a command line. Out: the same words, or a ConfigError that names the wrong one.
"""

from collections.abc import Sequence

from apache_beam.options import pipeline_options

from starmill.schema import errors


def checked(runner: str, words: Sequence[str], command: str) -> list[str]:
    """Returns Beam's options for a runner; ConfigError for words that Beam does not know.

    Args:
        runner: of Beam.
        words: options that the command itself does not know.
        command: its name, for messages.
    """
    options = [f"--runner={runner}", *words]
    parser = pipeline_options._BeamArgumentParser()
    for kind in pipeline_options.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(options)
    if unknown:
        raise errors.ConfigError(
            f"{unknown[0]}: expected an option of {command} or of Beam"
        )
    return options
