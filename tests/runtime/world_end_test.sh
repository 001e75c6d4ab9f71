#!/usr/bin/env bash
# usage: world_end_test.sh MPIRUN_SH WORLD_END
#
# When a rank ends early, in any way, mpirun ends the others, with a code other than 0.
set -uo pipefail
mpirun=$1 program=$2
export PLIMSOLL_MPI_SECONDS=20
problems=0

# expect CODE HOW [TEXT]: the exit code ('any': any but 0), and a text of the output.
expect() {
  local code=0 output
  # shellcheck disable=SC2086  # HOW may be two words
  output=$("$mpirun" 3 "$program" $2 2>&1) || code=$?
  if [ "$code" = 0 ] || { [ "$1" != any ] && [ "$code" != "$1" ]; } ||
    grep -q "user-provided time limit" <<<"$output" || ! grep -qF -- "${3:-}" <<<"$output"; then
    printf '%s: exit code %s, expected %s and "%s"; the output:\n%s\n' "$2" "$code" "$1" "${3:-}" "$output"
    problems=1
  fi
}

"$mpirun" 3 "$program" in-order || problems=1
expect 7 abort
expect 7 leave
expect 137 kill
expect 3 throw "error: an error of the last rank"
expect 7 thread

# The same while the others wait for what it would send them as a stage of a pipeline.
expect 7 "abort link"
expect 137 "kill link" "process rank 2"
expect 3 "throw link" "error: an error of the last rank"
expect 3 "order link" "error: receive of micro-batch 1 from stage 2 (rank 2), slot 0: micro-batch 2 came"

# The launcher of another MPI than this build's.
output=$(ASAN_OPTIONS=detect_leaks=0 PMI_SIZE=4 PMI_RANK=0 timeout 20 "$program" in-order 2>&1)
if [ $? != 3 ] || ! grep -q "started 4 ranks, and MPI finds 1" <<<"$output"; then
  printf 'a foreign launcher: the output:\n%s\n' "$output"
  problems=1
fi

# A machine without MPI, or with a broken one: ranks need it, and one process doesn't.
without=$(mktemp -d)
trap 'rm -rf "$without"' EXIT
: >"$without/libmpi.so.40"
export ASAN_OPTIONS=detect_leaks=0
output=$(LD_LIBRARY_PATH=$without PMI_SIZE=4 PMI_RANK=0 timeout 20 "$program" in-order 2>&1)
if [ $? != 3 ] || ! grep -q "Open MPI's library cannot be loaded (.*libmpi.so.40.*); install Open MPI" <<<"$output"; then
  printf 'ranks without MPI: the output:\n%s\n' "$output"
  problems=1
fi
output=$(LD_LIBRARY_PATH=$without timeout 20 "$program" in-order 2>&1) || {
  printf 'one process without MPI: the output:\n%s\n' "$output"
  problems=1
}
exit $problems
