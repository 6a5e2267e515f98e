"""`starmill get`: copies a published dataset or agent to this machine, verified."""

import argparse

from starmill.commands import publish
from starmill.pipelines import transfer
from starmill.schema import errors, registry

EXAMPLES = """\
  starmill get 's3://bucket/ladder#sha256:0f3c...' data
  starmill get ladder@1.2.0 data --registry starmill-registry.json
  starmill get 'gs://bucket/agents/bc.agent#sha256:77ab...' bc.agent
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "source",
        metavar="REFERENCE",
        help="URL, path or name@version of a dataset, or the address of an .agent "
        "file; each may end in #sha256:...",
    )
    parser.add_argument(
        "target", metavar="PLACE", help="folder to copy to, or the agent's new file"
    )
    publish.add_copy_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Copies, and prints the reference of the copy as the last line."""
    if not args.source.partition("#")[0].endswith(transfer.AGENT_ENDING):
        folder, content = registry.open_manifest(args.source, args.registry)
        print(publish.copy_dataset("get", folder, content, args))
        return 0
    if args.register:
        raise errors.ConfigError("--register: a registry holds datasets, not agents")
    agent = transfer.agent_file(args.source)
    address = transfer.copy_agent(agent, args.target)
    print(f"{address}#sha256:{agent.sha256}")
    return 0
