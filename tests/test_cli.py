"""The command as a user meets it: help, errors, completion."""

import errno
import os
import subprocess
import sys

import pytest

from starmill import cli
from starmill.schema import card
from starmill.version import __version__


def test_help_lists_every_command(capsys):
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, (_, summary) in cli.COMMANDS.items():
        assert name in shown
        assert summary in shown


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_each_command_has_help_with_examples(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([name, "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert f"starmill {name}" in shown
    assert shown.count(f"starmill {name}") >= 2, "usage and at least one example"


def test_unknown_command_says_which_there_are(capsys):
    assert cli.main(["genrate"]) == 2
    shown = capsys.readouterr().err
    assert "unknown command 'genrate' (did you mean generate?)" in shown
    assert "generate" in shown


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_sentence(number, capsys, monkeypatch):
    def run(_):
        raise OSError(number, os.strerror(number), "/data/shard")

    monkeypatch.setattr("starmill.commands.info.run", run)
    assert cli.main(["info", "data"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"/data/shard: {os.strerror(number)}; free some space")
    assert len(shown.splitlines()) == 1


def test_another_error_of_the_system_is_not_taken_for_a_full_disk(monkeypatch):
    def run(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("starmill.commands.info.run", run)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        cli.main(["info", "data"])


def test_no_command_is_not_success(capsys):
    assert cli.main([]) == 2
    assert "usage" in capsys.readouterr().out


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"starmill {__version__}\n"


@pytest.mark.parametrize("name", ["info", "rate", "report"])
def test_light_commands_import_neither_beam_nor_jax(name):
    code = (
        "import sys; from starmill import cli; cli.build_parser(sys.argv[1]);"
        "heavy = {'jax', 'tensorflow', 'apache_beam'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "generate" in script
    assert ("-l shown" if shell == "fish" else "--shown") in script


def test_bash_completion_works_in_bash(capsys):
    cli.main(["completion", "bash"])
    script = capsys.readouterr().out
    script += (
        "\nCOMP_WORDS=(starmill rep); COMP_CWORD=1; _starmill; echo ${COMPREPLY[@]}"
        "\nCOMP_WORDS=(starmill report --sho); COMP_CWORD=2; _starmill;"
        " echo ${COMPREPLY[@]}"
        "\nCOMP_WORDS=(starmill export x --format np); COMP_CWORD=4; _starmill;"
        " echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["report", "--shown", "npz"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["completion", "fsh"], "(did you mean fish?)"),
        (["rate", "x.csv", "--intervals", "analitic"], "(did you mean analytic?)"),
        (["rate", "x.csv", "--ancor", "bc"], "(did you mean --anchor?)"),
    ],
)
def test_a_misspelt_choice_or_option_gets_a_suggestion(arguments, hint, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["completion", "bash"]])
def test_a_reader_that_stops_early_is_no_error(arguments):
    """Like `starmill ... | head`: the other end of the pipe is closed."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "starmill", *arguments],
            stdout=write_end,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


LOST_INTERRUPT = """
import os, signal, sys, time
from starmill import cli

class Command:
    PASSES_ON = False
    EXAMPLES = ""
    @staticmethod
    def add_arguments(parser):
        pass
    @staticmethod
    def run(args):
        class Interrupted:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)  # the exception is raised here, and dropped
        Interrupted()
        time.sleep(60)
        return 0

cli._load = lambda name: Command
sys.exit(cli.main(["info"]))
"""


def test_an_interrupt_that_python_drops_still_ends_the_command():
    done = subprocess.run(
        [sys.executable, "-c", LOST_INTERRUPT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["download", "index", "generate"])
def test_commands_that_read_packs_name_the_license_of_dataset_cards(command):
    actions = {action.dest: action for action in cli.build_parser(command)._actions}
    assert card.BLIZZARD_LICENSE in actions["accept_license"].help
