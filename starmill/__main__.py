"""`python -m starmill` is the `starmill` command."""

from starmill.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
