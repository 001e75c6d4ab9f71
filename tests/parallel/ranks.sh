# Sourced by tests of `plimsoll` on several ranks, with their arguments MPIRUN.SH PLIMSOLL. Goes to
# the test's own folder.
set -euo pipefail
mpirun_sh=$PWD/$1 plimsoll=$PWD/$2
cd "${TEST_TMPDIR:?}"

fail() {
  echo "FAILED: $*"
  exit 1
}

# Trains run.yaml.
train() {  # RANKS RUN [ARGUMENT…]
  local ranks=$1 run=$2
  shift 2
  "$mpirun_sh" "$ranks" "$plimsoll" train run.yaml --set run.dir="$run" "$@" >"$run.txt" 2>&1 || fail "$(cat "$run.txt")"
}

# Of steps and evaluations, in order.
losses() { grep -o '"[a-z_]*loss": *[0-9.e+-]*' "$1/metrics.jsonl" | sed 's/.*: *//'; }

# Two runs have so many losses, which differ by at most `limit` of their size.
near() {  # RUN RUN COUNT [LIMIT]
  paste <(losses "$1") <(losses "$2") | awk -v count="$3" -v limit="${4:-1e-5}" '
    { d = $1 - $2; if (d < 0) d = -d; if (d > limit * $1) { print "loss", NR, $1, $2; bad = 1 } }
    END { exit bad || NR != count }' || fail "losses of $1 and $2"
}
