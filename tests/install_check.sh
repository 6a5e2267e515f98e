#!/usr/bin/env bash
# Installs the checkout into clean environments and converts one recorded episode in each.
#   tests/install_check.sh PYTHON...      e.g. tests/install_check.sh python3.11 python3.13
# Uses uv where the checkout's environment has it, pip otherwise. Exit 1 if any fails.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
golden=$root/tests/golden/converter
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for python in "$@"; do
  version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])') || { failed=1; continue; }
  venv=$work/venv-$version
  # A copy of what git knows: no build leftovers, and nothing is built inside the checkout.
  source=$work/source-$version
  mkdir -p "$source" && (cd "$root" && git ls-files -z | xargs -0 cp --parents -P -t "$source" 2>/dev/null)
  "$python" -m venv "$venv" || { failed=1; continue; }
  if [ -x "$root/.venv/bin/uv" ]; then
    "$root/.venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$source"
  else
    "$venv/bin/python" -m pip install --quiet "$source"
  fi || { echo "FAIL  $version: install"; failed=1; continue; }
  name=$(basename "$(ls "$golden"/inputs/*.npz | head -1)")
  if (cd "$work" && "$venv/bin/starmill" convert "$golden/inputs/$name" --out "$work/$version.npz") \
      && cmp "$work/$version.npz" "$golden/expected/$name"; then
    echo "ok    $version: $name"
  else
    echo "FAIL  $version: $name"; failed=1
  fi
  rm -rf "$venv" "$source"
done
exit $failed
