#!/bin/sh
# A dev container runs this as root while its image is built. FROM is the option `from`; PREFIX is for trying it elsewhere.
set -eu
PREFIX="${PREFIX:-/usr/local}"

for python in python3 python3.14 python3.13 python3.12 python3.11; do
  if "$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    "$python" -m venv "$PREFIX/share/handoff"
    "$PREFIX/share/handoff/bin/pip" install -q --disable-pip-version-check "${FROM:-handoff-relay}"
    echo devcontainer > "$PREFIX/share/handoff/handoff-installed-by"
    mkdir -p "$PREFIX/bin"
    ln -sf "$PREFIX/share/handoff/bin/handoff" "$PREFIX/bin/handoff"
    exec "$PREFIX/bin/handoff" --version
  fi
done
echo "handoff needs Python 3.11 or newer with venv. Add ghcr.io/devcontainers/features/python to your devcontainer.json." >&2
exit 1
