#!/usr/bin/env bash
# usage: mpirun.sh RANKS[,RANKS…] PROGRAM [ARGUMENT…]
#
# Runs the program under mpirun with each number of ranks in turn. Prints the output at the end of a
# run, rank by rank. Fails, after a line that says so, when any rank fails, or when ranks wait for
# each other for longer than PLIMSOLL_MPI_SECONDS (50).
set -euo pipefail
ranks=$1 program=$2
shift 2
command -v mpirun >/dev/null || { echo "mpirun.sh: there is no mpirun (see setup.sh)"; exit 1; }

# Sandboxes share /dev/shm but number their processes alike, so that two jobs would mistake each
# other's files for their own.
TMPDIR=$(mktemp -d /dev/shm/mpi.XXXXXX)
export TMPDIR OMPI_MCA_btl_vader_backing_directory=$TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
# Allows running as root, with more ranks than cores, without ssh, and where processes may not read
# each other.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_plm_rsh_agent=
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_odls_base_sigkill_timeout=0
# There is only one of each of these files for all ranks.
unset XML_OUTPUT_FILE TEST_PREMATURE_EXIT_FILE
# Open MPI itself leaks, and locks in ways that ThreadSanitizer cannot see.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}ignore_noninstrumented_modules=1

# Open MPI 4.1's mpirun may hang after its ranks have ended with an error.
end_without_ranks() {  # JOB
  local seconds=0
  while [ $seconds -lt 10 ] && sleep 1; do
    # Ended ranks that it has not waited for remain as zombies.
    if ps -o stat= --ppid "$1" | grep -qv '^Z'; then seconds=0; else seconds=$((seconds + 1)); fi
  done
  kill -9 "$1"
}

for count in ${ranks//,/ }; do
  logs=$(mktemp -d "$TMPDIR/logs.XXXXXX") code=0
  # The output goes to files, since mpirun loses what a rank writes shortly before its end.
  # shellcheck disable=SC2016
  mpirun --timeout "${PLIMSOLL_MPI_SECONDS:-50}" -np "$count" bash -c \
    'exec "$@" >"$0/$OMPI_COMM_WORLD_RANK" 2>&1' "$logs" "$program" "$@" &
  job=$!
  end_without_ranks $job >/dev/null 2>&1 &
  watch=$!
  wait $job || code=$?
  kill $watch 2>/dev/null || true
  for ((rank = 0; rank < count; ++rank)); do
    [ ! -s "$logs/$rank" ] || sed "s/^/[$rank] /" "$logs/$rank"
  done
  if [ "$code" -ne 0 ]; then
    echo "mpirun.sh: failed with $count ranks, exit code $code: $program $*"
    exit "$code"
  fi
  echo "mpirun.sh: passed with $count ranks: $program $*"
done
