"""`starmill completion SHELL`: a completion script with every command and its options."""

import argparse
import shlex

from starmill import cli, extras

EXAMPLES = """
  starmill completion bash > ~/.local/share/bash-completion/completions/starmill
  starmill completion zsh > ~/.zfunc/_starmill
  starmill completion fish > ~/.config/fish/completions/starmill.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace) -> int:
    """Prints the script."""
    options = {name: _options_of(name) for name in cli.COMMANDS}
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]
    print(script(options), end="")
    return 0


def _options_of(name: str) -> list[str]:
    """Returns what can follow the command; nothing if the command's extra is not installed."""
    try:
        return _options(cli.build_parser(name))
    except ModuleNotFoundError as error:
        if extras.extra_for(error) is None:
            raise
        return []


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Returns what can follow the command: long options, choices and sub-commands."""
    words: set[str] = set()
    for action in parser._actions:
        words.update(word for word in action.option_strings if word.startswith("--"))
        if not action.option_strings and action.choices is not None:
            words.update(str(choice) for choice in action.choices)
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                words.update(_options(child))
    return sorted(words)


def _bash(options: dict[str, list[str]]) -> str:
    cases = "\n".join(
        f"    {name}) words={shlex.quote(' '.join(words))} ;;"
        for name, words in options.items()
    )
    names = " ".join(options)
    return f"""# starmill completion for bash
_starmill() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {shlex.quote(names)} -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
}}
complete -o filenames -F _starmill starmill
"""


def _zsh(options: dict[str, list[str]]) -> str:
    cases = "\n".join(
        f"    {name}) compadd -- {' '.join(words)} ;;"
        for name, words in options.items()
    )
    summaries = " ".join(
        shlex.quote(f"{name}:{cli.COMMANDS[name][1]}") for name in options
    )
    return f"""#compdef starmill
_starmill() {{
  if (( CURRENT == 2 )); then
    local commands=({summaries})
    _describe command commands
    return
  fi
  case "$words[2]" in
{cases}
  esac
  _files
}}
_starmill "$@"
"""


def _fish(options: dict[str, list[str]]) -> str:
    lines = ["# starmill completion for fish"]
    for name in options:
        lines.append(
            "complete -c starmill -n __fish_use_subcommand "
            f"-a {name} -d {shlex.quote(cli.COMMANDS[name][1])}"
        )
    for name, words in options.items():
        for word in words:
            flag = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(
                f"complete -c starmill -n '__fish_seen_subcommand_from {name}' {flag}"
            )
    return "\n".join(lines) + "\n"
