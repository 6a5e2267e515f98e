"""`starmill completion SHELL`: a completion script with commands, options and values."""

import argparse
import shlex
from typing import NamedTuple

from starmill import cli, extras

EXAMPLES = """
  starmill completion bash > ~/.local/share/bash-completion/completions/starmill
  starmill completion zsh > ~/.zfunc/_starmill
  starmill completion fish > ~/.config/fish/completions/starmill.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


class Words(NamedTuple):
    """What can follow a command.

    Attributes:
        words: its options, choices and sub-commands, sorted.
        values: option -> the values it accepts, for options that accept only some.
    """

    words: list[str]
    values: dict[str, list[str]]


def run(args: argparse.Namespace) -> int:
    """Prints the script."""
    commands = {name: _words_of(name) for name in cli.COMMANDS}
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]
    print(script(commands), end="")
    return 0


def _words_of(name: str) -> Words:
    """Returns what can follow the command; nothing if the command's extra is not installed."""
    try:
        return _words(cli.build_parser(name))
    except ModuleNotFoundError as error:
        if extras.extra_for(error) is None:
            raise
        return Words([], {})


def _words(parser: argparse.ArgumentParser) -> Words:
    words: set[str] = set()
    values: dict[str, list[str]] = {}
    for action in parser._actions:
        options = [word for word in action.option_strings if word.startswith("--")]
        words.update(options)
        if isinstance(action, argparse._SubParsersAction):
            words.update(action.choices)
            for child in map(_words, action.choices.values()):
                words.update(child.words)
                values.update(child.values)
        elif action.choices is not None:
            choices = [str(choice) for choice in action.choices]
            values.update(dict.fromkeys(options, choices))
            if not action.option_strings:
                words.update(choices)
    return Words(sorted(words), values)


def _bash(commands: dict[str, Words]) -> str:
    cases = "\n".join(
        f"    {name}) words={shlex.quote(' '.join(each.words))} ;;"
        for name, each in commands.items()
    )
    values = "\n".join(
        f"    '{name} {option}') values={shlex.quote(' '.join(choices))} ;;"
        for name, each in commands.items()
        for option, choices in each.values.items()
    )
    names = " ".join(commands)
    return f"""# starmill completion for bash
_starmill() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words values=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {shlex.quote(names)} -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}} $previous" in
{values}
  esac
  if [ -n "$values" ]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
}}
complete -o filenames -F _starmill starmill
"""


def _zsh(commands: dict[str, Words]) -> str:
    cases = "\n".join(
        f"    {name}) compadd -- {' '.join(each.words)} ;;"
        for name, each in commands.items()
    )
    values = "\n".join(
        f"    '{name} {option}') compadd -- {' '.join(choices)}; return ;;"
        for name, each in commands.items()
        for option, choices in each.values.items()
    )
    summaries = " ".join(
        shlex.quote(f"{name}:{cli.COMMANDS[name][1]}") for name in commands
    )
    return f"""#compdef starmill
_starmill() {{
  if (( CURRENT == 2 )); then
    local commands=({summaries})
    _describe command commands
    return
  fi
  case "$words[2] $words[CURRENT-1]" in
{values}
  esac
  case "$words[2]" in
{cases}
  esac
  _files
}}
_starmill "$@"
"""


def _fish(commands: dict[str, Words]) -> str:
    lines = ["# starmill completion for fish"]
    for name in commands:
        lines.append(
            "complete -c starmill -n __fish_use_subcommand "
            f"-a {name} -d {shlex.quote(cli.COMMANDS[name][1])}"
        )
    for name, each in commands.items():
        for word in each.words:
            flag = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            if word in each.values:
                flag += f" -x -a {shlex.quote(' '.join(each.values[word]))}"
            lines.append(
                f"complete -c starmill -n '__fish_seen_subcommand_from {name}' {flag}"
            )
    return "\n".join(lines) + "\n"
