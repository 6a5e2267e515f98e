#!/usr/bin/env bash
# Installs the checkout into clean environments and converts one recorded episode in each.
#   tests/install_check.sh PYTHON...      e.g. tests/install_check.sh python3.11 python3.13
# Exit 1 if any fails.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
golden=$root/tests/golden/converter
# shellcheck source=tests/environment.sh
. "$root/tests/environment.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for python in "$@"; do
  version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])') || { failed=1; continue; }
  clean_environment "$python" "$work/$version" || { echo "FAIL  $version: install"; failed=1; continue; }
  name=$(basename "$(ls "$golden"/inputs/*.npz | head -1)")
  if (cd "$work" && "$work/$version/venv/bin/starmill" convert "$golden/inputs/$name" --out "$work/$version.npz") \
      && cmp "$work/$version.npz" "$golden/expected/$name"; then
    echo "ok    $version: $name"
  else
    echo "FAIL  $version: $name"; failed=1
  fi
  rm -rf "${work:?}/$version"
done
exit $failed
