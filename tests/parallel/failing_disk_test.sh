#!/usr/bin/env bash
# usage: failing_disk_test.sh MPIRUN.SH PLIMSOLL FAILING_DISK.SO
#
# `plimsoll train` on disks that fail (tests/support/failing_disk.cc), alone and on several ranks,
# with synchronous and asynchronous snapshots: it reports the failure, keeps the existing files, and
# continues or stops as configured.
disk=$PWD/$3
source tests/parallel/ranks.sh
# Allows the preloaded library to come before a sanitizer's.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0

cat >run.yaml <<'END'
model: {family: gpt2, layers: 2, width: 64, heads: 2, vocab: 96, sequence: 16}
data: {synthetic: true}
train: {steps: 12, micro_batch: 2, global_batch: 8, log_every: 1, threads: 1}
memory: {summary: false}
save: {every: 3, keep: 1, model: false}
device: cpu
END

# RANKS WAY [ARGUMENT…] to out.txt; the exit code is in $code.
train() {
  local ranks=$1 way=$2
  shift 2
  code=0
  # shellcheck disable=SC2016
  FAILING_DISK=$way "$mpirun_sh" "$ranks" bash -c 'LD_PRELOAD=$0 exec "$@"' "$disk" "$plimsoll" train run.yaml \
    --set run.dir=run --resume auto "$@" >out.txt 2>&1 || code=$?
}
expect_code() { [ "$code" -eq "$1" ] || fail "exit code $code: $(cat out.txt)"; }
expect() { grep -q -e "$1" out.txt || fail "no '$1': $(cat out.txt)"; }
newest_is() {  # STEP: the only snapshot, whole
  [ "$(ls run/snapshots)" = "step-00000000$1" ] || fail "$(ls run/snapshots)"
  "$plimsoll" inspect "run/snapshots/step-00000000$1" >inspect.txt || fail "$(cat inspect.txt)"
}

for async in false true; do
  for ranks in 1 2; do
    echo "ranks $ranks, save.async $async"
    sets=(--set save.async=$async)
    # With two ranks, the second one's disk fails, where both write.
    unset FAILING_DISK_RANK
    [ $ranks -eq 1 ] || export FAILING_DISK_RANK=1
    who=$([ $ranks -eq 1 ] || echo 'rank 1: ')
    rm -rf run

    train $ranks short "${sets[@]}" --set train.stop_after=3
    expect_code 0
    newest_is 3

    for room in 0 100 150000; do
      train $ranks room=$room "${sets[@]}" --set train.stop_after=6 --set save.on_error=stop
      [ $ranks -gt 1 ] || expect_code 1
      [ "$code" -ne 0 ] || fail "room for $room bytes is enough: $(cat out.txt)"
      expect "no snapshot of step 6: ${who}run/snapshots/step-000000006.partial/rank-0000.*: No space left on device"
      newest_is 3
    done
    train $ranks room=150000 "${sets[@]}" --set train.stop_after=6
    expect_code 0
    expect 'warning: no snapshot of step 6: .*No space left on device'
    newest_is 3

    train $ranks sync "${sets[@]}" --set train.stop_after=6
    expect_code 0
    expect "warning: no snapshot of step 6: .*rank-0000.*: Input/output error"
    newest_is 3

    unset FAILING_DISK_RANK  # the first rank makes the folders
    train $ranks readonly "${sets[@]}" --set train.stop_after=6
    expect_code 0
    expect 'warning: no snapshot of step 6: .*Read-only file system'
    newest_is 3

    train $ranks none "${sets[@]}"
    expect_code 0
    expect 'continues after 3 steps'
    [ "$(ls run/snapshots)" = step-000000012 ] || fail "$(ls run/snapshots)"
  done
done
echo "passed"
