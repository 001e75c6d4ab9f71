#!/usr/bin/env bash
# usage: model_states_mpi_test.sh MPIRUN.SH PLIMSOLL_WITH_STATES
# States of a model in snapshots and checkpoints: the bits of a run that was never stopped on the same ranks; on others
# what the model says.
source tests/parallel/ranks.sh

cat >run.yaml <<'END'
model: {family: remembering}
data: {source: numbered_points}
train: {steps: 9, micro_batch: 2, global_batch: 8, log_every: 1, threads: 1}
memory: {summary: false, calibrate: false}
save: {every: 4}
log: {tensorboard: false, report: false}
device: cpu
END

metric() {  # RUN STEP NAME: what the step read, to 6 digits
  python3 - "$@" <<'END'
import json, sys
run, step, name = sys.argv[1:]
for line in open(run + "/metrics.jsonl"):
    row = json.loads(line)
    if row.get("step") == int(step) and name in row:
        print("%.6g" % row[name])
        break
else:
    sys.exit(f"{run} has no step {step} with {name}")
END
}
steps() {
  python3 - "$1" <<'END'
import json, sys
for line in open(sys.argv[1] + "/metrics.jsonl"):
    row = json.loads(line)
    if "loss" in row:
        print([row[k] for k in ("step", "loss", "grad_norm", "mean_total", "own_total", "seen")])
END
}

# The same ranks: every bit.
for how in "--set parallel.data=2" "--set parallel.data=2 --set save.async=true" "--set parallel.data=2 --set parallel.zero=3" \
  "--set parallel.tensor=2"; do
  rm -rf whole stopped
  train 2 whole $how
  train 2 stopped $how --set train.stop_after=6
  train 2 stopped $how --resume auto
  [ "$(steps whole | wc -l)" -ge 9 ] || fail "$how: $(steps whole)"
  cmp <(steps whole) <(steps stopped) || fail "$how: other bits"
  cmp whole/model/model.safetensors stopped/model/model.safetensors || fail "$how: other weights"
  "$plimsoll" export stopped --step 9 --to exported --overwrite >export.txt 2>&1 || fail "$(cat export.txt)"
  cmp whole/model/model.safetensors exported/model.safetensors || fail "$how: other weights are exported"
done
for state in norm.mean norm.seen; do
  grep -aq "\"$state\"" whole/model/model.safetensors || fail "the checkpoint has no $state"
done
if grep -aq '"norm.own"' whole/model/model.safetensors; then fail "each rank's own state is in the checkpoint"; fi

# Other ranks: the mean of all, or the beginning; what is alike goes on.
for anew in false true; do
  for ranks in 1 4; do
    rm -rf two moved
    train 2 two --set model.own_begins_anew=$anew
    train 2 moved --set model.own_begins_anew=$anew --set train.stop_after=8
    train $ranks moved --set model.own_begins_anew=$anew --set train.stop_after=9 --resume auto
    own=$(metric two 8 own_total)
    [ "$anew" = false ] || own=0
    [ "$(metric moved 8 own_total)" = "$own" ] || fail "$ranks ranks, $anew: $(metric moved 8 own_total), not $own"
    [ "$(metric moved 8 mean_total)" = "$(metric two 8 mean_total)" ] || fail "$ranks ranks: mean is $(metric moved 8 mean_total)"
    [ "$(metric moved 8 seen)" = "$(metric two 8 seen)" ] || fail "$ranks ranks: seen is $(metric moved 8 seen)"
  done
done

# A checkpoint goes on with its states.
sed -i 's|^model:.*|model: {init_from: whole/model}|' run.yaml
train 1 from --set train.steps=1
[ "$(metric from 0 seen)" = 36 ] || fail "from a checkpoint: seen is $(metric from 0 seen)"
