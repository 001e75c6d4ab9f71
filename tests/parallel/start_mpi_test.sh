#!/usr/bin/env bash
# usage: start_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# Several ranks start together or not at all: with different commands, with a rank that never comes,
# with folders that they don't share. Nothing is lost, and the last message names the cause.
source tests/parallel/ranks.sh

cat >run.yaml <<'END'
model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 64, sequence: 8}
data: {synthetic: true}
train: {steps: 3, micro_batch: 4, global_batch: 4, threads: 1}
run: {dir: run, overwrite: true}
device: cpu
memory: {calibrate: false}
END
export PLIMSOLL=$plimsoll HERE=$PWD

# refused TEXT SCRIPT: each rank runs SCRIPT, which must end within seconds with the message TEXT
# and without MPI's own messages.
refused() {
  local output started=$SECONDS
  if output=$("$mpirun_sh" 2 bash -c "$2" 2>&1); then fail "runs: $2"; fi
  grep -qF -- "$1" <<<"$output" || fail "not '$1', but: $output"
  ! grep -q 'MPI_ABORT' <<<"$output" || fail "MPI's words hide the cause: $output"
  [ $((SECONDS - started)) -le 20 ] || fail "$((SECONDS - started)) s until: $output"
}

refused 'rank 0 was started as `plimsoll train` and rank 1 as `plimsoll plan`' \
  'if [ $OMPI_COMM_WORLD_RANK = 0 ]; then exec $PLIMSOLL train run.yaml; else exec $PLIMSOLL plan run.yaml; fi'
refused 'rank 1: its program and configuration differ' \
  'if [ $OMPI_COMM_WORLD_RANK = 0 ]; then exec $PLIMSOLL train run.yaml; else exec $PLIMSOLL train run.yaml --resume auto; fi'
refused 'rank 1: its program and configuration differ' \
  'exec $PLIMSOLL train run.yaml --set parallel.tensor=$((1 + OMPI_COMM_WORLD_RANK))'
refused 'rank 0: parallel.timeout: no progress for 2 seconds, before the first step' \
  '[ $OMPI_COMM_WORLD_RANK = 0 ] || exec $PLIMSOLL train <(sleep 15); exec $PLIMSOLL train run.yaml --set parallel.timeout=2'
refused 'model.heads' 'exec $PLIMSOLL train run.yaml --set model.heads=3'

# An earlier run stays when ranks don't share the folder.
mkdir -p rank0 rank1
elsewhere='cd $HERE/rank$OMPI_COMM_WORLD_RANK; exec $PLIMSOLL train $HERE/run.yaml'
(cd rank0 && "$plimsoll" train "$HERE/run.yaml" --set save.every=3 >/dev/null)
find rank0 -type f -exec sha256sum {} + | sort >before
refused 'this rank does not see what rank 0 writes there' "$elsewhere"
find rank0 -type f -exec sha256sum {} + | sort >after
cmp before after || fail "a start that was refused has changed the earlier run"
[ -z "$(ls rank1)" ] || fail "something is left: $(ls rank1)"

# Answers and messages are printed once.
"$mpirun_sh" 2 "$plimsoll" version >version.txt
[ "$(grep -c 'plimsoll [0-9]' version.txt)" = 1 ] || fail "$(cat version.txt)"
