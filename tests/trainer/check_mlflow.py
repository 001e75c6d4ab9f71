#!/usr/bin/env python3
"""Reads what `log.mlflow` writes with MLflow itself.

    bazel build //app:plimsoll
    python3 tests/trainer/check_mlflow.py bazel-bin/app/plimsoll

Trains a small model, stops it by a signal, and goes on: MlflowClient must find one run in the
experiment, with its parameters, tags, status, files, and a history of metrics without a step twice; so
must the REST interface of `mlflow ui`. A run that diverges must be FAILED.
Needs: pip install mlflow (tried with 2.22.5 and 3.17.2; from 3.13 on, MLFLOW_ALLOW_FILE_STORE=true).
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow  # noqa: E402

RUN = """
model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 64, sequence: 8}
data: {synthetic: true}
train: {steps: 4000, micro_batch: 4, eval_every: 1000, threads: 1}
run: {dir: runs/small & odd, name: "small: one", tags: [width, seed 2], notes: "does it pay?"}
save: {every: 1000}
log: {mlflow: true}
device: cpu
memory: {calibrate: false}
"""


def check(condition, what):
    if not condition:
        sys.exit(f"check_mlflow.py: {what}")


def train(program, folder, *arguments):
    return subprocess.run([program, "train", "run.yaml", *arguments], cwd=folder, capture_output=True, text=True)


def stop_early(program, folder):
    """The run, ended by SIGTERM within its first steps."""
    process = subprocess.Popen([program, "train", "run.yaml", "--set", "train.steps=100000000"], cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    metrics = folder / "runs/small & odd/metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.05)
    running = only_run(folder, "runs")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    check(process.returncode == 4, f"exit code {process.returncode}: {errors}")
    check(running.info.status == "RUNNING", f"{running.info.status} while it trains")


def only_run(folder, experiment):
    client = mlflow.MlflowClient((folder / "mlruns").as_uri())
    found = client.get_experiment_by_name(experiment)
    check(found is not None, f"no experiment {experiment}")
    runs = client.search_runs([found.experiment_id])
    check(len(runs) == 1, f"{len(runs)} runs in {experiment}")
    return runs[0]


def check_client(folder):
    client = mlflow.MlflowClient((folder / "mlruns").as_uri())
    run = only_run(folder, "runs")
    check(run.info.status == "FINISHED", run.info.status)
    check(run.info.end_time >= run.info.start_time, "ends before it starts")
    check(run.info.run_name == "small: one", run.info.run_name)
    check(run.data.params["train.micro_batch"] == "4" and run.data.params["model.family"] == "gpt2",
          run.data.params)
    check(run.data.tags["mlflow.note.content"] == "does it pay?" and run.data.tags["seed 2"] == "true",
          run.data.tags)
    rows = [json.loads(line) for line in (folder / "runs/small & odd/metrics.jsonl").open()]
    for name, key in [("train/loss", "loss"), ("eval/loss", "eval_loss"), ("train/lr", "lr")]:
        expected = [(row["step"], row[key]) for row in rows if key in row]
        history = [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, name)]
        check(history == expected, f"{name}: {len(history)} points, expected {len(expected)}")
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    check({"report.html", "config.yaml", "model"} <= files, files)
    return run.info


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.read().decode()


def check_server(folder, info):
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", "mlruns", "--port",
                               str(port)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(240):
            try:
                get(url + "/health")
                break
            except OSError:
                check(server.poll() is None, "mlflow ui ended")
                time.sleep(0.5)
        check("<html" in get(url + "/"), "mlflow ui shows no page")
        reply = json.loads(get(url + "/api/2.0/mlflow/runs/search", {"experiment_ids": [info.experiment_id]}))
        check([run["info"]["run_id"] for run in reply["runs"]] == [info.run_id], reply)
        page = get(f"{url}/get-artifact?path=report.html&run_id={info.run_id}")
        check(page == (folder / "runs/small & odd/report.html").read_text(), "report.html is another one")
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    program = parser.parse_args().program.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "run.yaml").write_text(RUN)
        stop_early(program, folder)
        check(only_run(folder, "runs").info.status == "KILLED", "stopped by a signal, and not KILLED")
        done = json.loads((folder / "runs/small & odd/metrics.jsonl").read_text().splitlines()[-1])["step"]
        result = train(program, folder, "--resume", "auto", "--set", f"train.steps={done + 500}")
        check(result.returncode == 0, result.stderr)
        info = check_client(folder)
        check_server(folder, info)
        result = train(program, folder, "--set", "run.dir=broken/run", "--set", "optimizer.lr=1000", "--set",
                       "optimizer.name=sgd", "--set", "optimizer.clip_grad_norm=0")
        check(result.returncode == 1, result.stderr)
        run = only_run(folder, "broken")
        check(run.info.status == "FAILED" and run.data.tags["plimsoll.reason"], run.info.status)
    print(f"mlflow {mlflow.__version__}: all is there")


if __name__ == "__main__":
    main()
