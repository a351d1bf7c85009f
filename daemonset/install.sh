#!/bin/sh
# install.sh DIRECTORY: knp with what the agent needs in a pod, in a virtual environment of its own
# that holds no installer and no compiler. The Dockerfile runs this, and so do the tests.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
to=$1
builder=$(mktemp -d)
trap 'rm -rf "$builder"' EXIT
"${PYTHON:-python3}" -m venv "$builder"
"${PYTHON:-python3}" -m venv --without-pip "$to"
"$builder/bin/pip" --python "$to/bin/python" install --quiet --disable-pip-version-check \
  --no-cache-dir --no-deps --requirement "$here/requirements.txt" "$here/.."
"$builder/bin/pip" --python "$to/bin/python" check
