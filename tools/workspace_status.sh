#!/usr/bin/env bash
# Bazel runs this before each build (.bazelrc). Prints
# - the commit, with "-dirty" when tracked files differ from it, or "unknown" outside a checkout, which
#   //base:version carries into the program;
# - the properties of this machine that tests need (tools/machine.sh), for //tests/support:machine.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

commit=unknown
# Only this checkout counts, not a repository that happens to contain the folder.
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ] &&
  head=$(git rev-parse --verify --quiet --short=12 HEAD); then
  commit=$head
  if [ -n "$(git --no-optional-locks status --porcelain --untracked-files=no 2>/dev/null)" ]; then
    commit+=-dirty
  fi
fi
echo "STABLE_GIT_COMMIT $commit"
tools/machine.sh | sed 's/^/STABLE_MACHINE_/'
