#!/usr/bin/env bash
# Plays a whole ladder game, and its replay for both players, under several Pythons; all must give the same bytes.
#   tests/same_bytes.sh PYTHON...      e.g. tests/same_bytes.sh .venv/bin/python python3.12 python3.13
# A Python that can import starmill is used as it is; for the others an environment is made, and the
# game compiled in it (minutes). Exit 1 if any fails or differs.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tests/environment.sh
. "$root/tests/environment.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
first=
for python in "$@"; do
  python=$(realpath -s "$(command -v "$python")")  # it is called from another folder
  version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])') || { failed=1; continue; }
  if ! (cd "$work" && "$python" -c 'import starmill.engines.skirmish.simulation.game') 2>/dev/null; then
    clean_environment "$python" "$work/$version" || { echo "FAIL  $version: install"; failed=1; continue; }
    python=$work/$version/venv/bin/python
  fi
  # From a folder of its own, so that the checkout's packages are used only where they are installed.
  if ! (cd "$work" && "$python" "$root/tests/engines/skirmish/same_bytes.py") > "$work/$version.txt"; then
    echo "FAIL  $version: play"; failed=1; continue
  fi
  first=${first:-$version}
  if cmp -s "$work/$version.txt" "$work/$first.txt"; then
    echo "ok    $version: $(head -1 "$work/$version.txt")"
  else
    echo "FAIL  $version differs from $first"; diff "$work/$first.txt" "$work/$version.txt"; failed=1
  fi
done
exit $failed
