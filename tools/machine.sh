#!/usr/bin/env bash
# usage: machine.sh [ROOT]
# Prints the properties of this machine that decide whether tests run or skip, a line "KIND VALUE"
# each. A value changes when the thing appears, disappears or is replaced. tools/workspace_status.sh
# passes the lines to Bazel, where they are inputs of the tests that need the thing
# (//tests/support:machine/KIND). This runs before each build, so it must be quick. Tests of this
# script pass another root as ROOT.
#
# The folder of reference files is $PLIMSOLL_SHARED, or else `shared` beside the repository.
root=${1:-}
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
shopt -s nullglob # absent things are left out

# The size and the time of each file, following links.
files() {
  [ $# -eq 0 ] || stat -L -c '%n %s %Y' "$@" 2>/dev/null | tr '\n' ';'
}

# Tests look for programs here, whatever the user's PATH is; a pattern with brackets yields only
# existing files.
echo "browser $(files "$root"/usr/{bin,local/bin}/{chromiu[m],chromedrive[r]} \
  "$root"/usr/{lib,local/lib}/python3*/dist-packages/selenium/__init__.py)"
echo "fashion_mnist $(files "$root"/usr/share/datasets/fashion-mnist/*)"
echo "jinja2 $(files "$root"/usr/{lib,local/lib}/python3*/dist-packages/jinja2/__init__.py)"
echo "mpi $(files "$root"/usr/{bin,local/bin}/mpiru[n])"
echo "tensorboard $(files \
  "$root"/usr/{lib,local/lib}/python3*/dist-packages/{google/protobuf/__init__,numpy/__init__,absl/__init__,six}.py)"

# /dev/dxg is a GPU in the Windows Subsystem for Linux.
devices=("$root"/dev/{nvidia[0-9]*,dx[g]})
driver=$(cat "$root"/proc/driver/nvidia/{version,gpus/*/information} /dev/null 2>/dev/null |
  grep -E '^(NVRM|Model)' | tr '\n' ';')
echo "gpu ${devices[*]} $driver $(files "$root"/usr/lib/{x86_64-linux-gnu,wsl/lib}/lib{cuda,nvidia-ml}.so.[1])"

# Without the folder's name: the same files are the same reference.
shared=${PLIMSOLL_SHARED:-$root$(dirname "$(pwd -P)")/shared}
listing=
[ ! -d "$shared" ] ||
  listing=$(find -L "$shared" -type f -printf '%P %s %T@\n' 2>/dev/null | LC_ALL=C sort | sha256sum)
echo "shared $listing"
