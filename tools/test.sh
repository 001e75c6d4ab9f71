#!/usr/bin/env bash
# Runs tests (default: all of them) and ends with the line "N passed, N failed[, N skipped]".
#   tools/test.sh [bazel options] [targets]      e.g. tools/test.sh --config=asan //tests/graph:all
# Exits with 0 only if something ran and nothing failed. BAZEL names another bazel, options
# included.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

if [ -z "${HOME:-}" ]; then # Bazel keeps its outputs under the home folder.
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  export HOME
fi
[ -w "${HOME:-/nonexistent}" ] || { HOME=${TMPDIR:-/tmp}/plimsoll-home-$(id -u) && mkdir -p "$HOME" && export HOME; }

read -ra bazel <<<"${BAZEL:-bazel}"
if ! command -v "${bazel[0]}" >/dev/null; then
  echo "tools/test.sh: no ${bazel[0]} found; run ./setup.sh first" >&2
  exit 1
fi

# Every folder with a BUILD file, not //...: that would follow a bazel-NAME link that another user or
# another output base left here, and load Bazel's own repositories.
mapfile -t targets < <(find . -mindepth 2 -name BUILD ! -path './.*' | cut -d/ -f2 | sort -u | sed 's|.*|//&/...|')
for argument in "$@"; do
  case "$argument" in -*) ;; *) targets=() ;; esac
done

quiet=()
[ -t 2 ] || quiet=(--curses=no --color=no --show_progress_rate_limit=60)

events=$(mktemp) || exit 1
trap 'rm -f "$events"' EXIT
"${bazel[@]}" test --keep_going --build_tests_only --test_summary=none --build_event_json_file="$events" \
  "${quiet[@]}" "$@" "${targets[@]}"
python3 tools/summarize_tests.py "$events" $?
