# Sourced by the checks that need a clean environment of another Python.
# clean_environment PYTHON FOLDER: installs the checkout into FOLDER/venv, with uv where the
# checkout's own environment has it, with pip otherwise.
clean_environment() {
  # A copy of what git knows: no build leftovers, and nothing is built inside the checkout.
  mkdir -p "$2/source[generate]"
  (cd "$root" && git ls-files -z | xargs -0 cp --parents -P -t "$2/source" 2>/dev/null)
  "$1" -m venv "$2/venv" || return 1
  if [ -x "$root/.venv/bin/uv" ]; then
    "$root/.venv/bin/uv" pip install --quiet --python "$2/venv/bin/python" "$2/source[generate]"
  else
    "$2/venv/bin/python" -m pip install --quiet "$2/source[generate]"
  fi
}
