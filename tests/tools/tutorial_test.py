#!/usr/bin/env python3
"""Every command of docs/tutorials/ does what its page shows.

usage: tutorial_test.py PLIMSOLL PLIMSOLL_WITH_EXAMPLES

Each page is followed from its first command to its last in an empty folder. 8b_on_24gb.md is followed twice:

- The plans, with the configuration of the model that the page names, for the GPU that it names: planning needs no
  weights. Each figure that the page shows is one that the program prints.
- All commands, with a model of two layers in the place of that one, on the CPU.

The other pages are followed once, as they are (AS_WRITTEN). Their commands find the shipped configurations in configs/,
and the pages of docs/ as text in text/.

In a block of code a line "$ COMMAND" is a command (a backslash at a line's end continues it), and what follows is what it
prints, standard error included. "…" stands for any text, the number of spaces and line ends do not count. A line "^C" is
SIGINT at that place, a line "^K" is SIGKILL for rank 1 after the first snapshot, lines "> TEXT" are typed. A block after
a line with "`NAME`" and a colon at its end is that file. Commands within sentences are run at the end. A command has to end
with exit code 0, unless "$ echo $?" follows it and shows another one. Bazel's commands are not
run: this test's programs are what they build. In your_own_model.md `plimsoll` is plimsoll_with_examples.

8b_on_24gb.md's Python is run where this script's Python has transformers and peft.
"""
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path("tests/support").resolve()))
sys.dont_write_bytecode = True
import unittest_xml  # noqa: E402
from shown_blocks import blocks  # noqa: E402

ROOT = pathlib.Path.cwd()
TUTORIALS = ROOT / "docs/tutorials"
PAGE = TUTORIALS / "8b_on_24gb.md"
# The pages that are followed as they are, and the least number of their commands.
AS_WRITTEN = {
    "does_it_fit.md": 10,
    "many_gpus.md": 8,
    "ablation.md": 4,
    "segment_your_volumes.md": 16,
    "your_own_model.md": 10,
}
PROGRAM, WITH_EXAMPLES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
MPIRUN = ROOT / "tests/support/mpirun.sh"
MODEL = pathlib.Path("models/Llama-3.1-8B-Instruct")
CHATS = 400
SECONDS = 120  # no command takes so long

# The configuration of Llama 3.1 8B, as far as it shapes a plan.
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 128256,
}

# What makes the model that stands in for it.
TINY = """
model: {family: llama, layers: 2, width: 32, heads: 4, kv_heads: 2, ffn_width: 64, sequence: 256}
data: {train: base.jsonl, tokenizer: tokenizer}
train: {steps: 2, micro_batch: 1, threads: 1}
memory: {summary: false, calibrate: false}
run: {dir: base}
device: cpu
"""

# What a command says in the page, and what is run with the small model. A chat on a CPU answers in float32, and so
# does PEFT, so that both answers have the same tokens.
ON_THE_CPU = {
    "--device 4090": "--device cpu --set train.micro_batch=1 --set train.threads=1 --set memory.calibrate=false",
    "--device 4080": "--device cpu",
    "torch.bfloat16": "torch.float32",
}


def small(text):
    for said, run in ON_THE_CPU.items():
        text = text.replace(said, run)
    return text


# What a study of a page says, and what is run: less, and once where times vary.
SHORTER = {"[1, 2, 3]": "[1, 2]", "{warmup: 3, steps: 37}": "{warmup: 3, steps: 5, repeat_unsteady: false}"}


def without_measurements(text):
    """The text with a 0 for each number that is not one of bytes, and without intervals, signs, and marks of what cannot be
    told: times and losses of a study are those of one run."""
    text = re.sub(r"\\textasciitilde\{\}|~|\$[-−]\$|\([^()]* to [^()]*\)| in \d+ of \d+ steps", "", text)
    return re.sub(r"[-+−]?\b\d+(\.\d+)?(?![\d.]| (B|KiB|MiB|GiB)\b)", "0", text)


class Command:
    """`line` with what the page shows of it."""

    def __init__(self, line, shown):
        self.line = line
        self.interrupted = "^C" in shown
        self.killed = "^K" in shown
        self.typed = "".join(text[2:] + "\n" for text in shown if text.startswith("> "))
        self.shown = "\n".join(text for text in shown if text not in ("^C", "^K") and not text.startswith("> "))

    @property
    def plans(self):
        return self.line.startswith(("plimsoll plan", "plimsoll config"))


def commands(lines):
    """The commands of a block."""
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        if not line.startswith("$ "):
            continue
        while line.endswith("\\"):
            line = line[:-1] + rest.pop(0)
        shown = []
        while rest and not rest[0].startswith("$ "):
            shown.append(rest.pop(0))
        yield Command(line[2:], shown)


def steps(text):
    """The page's files as (name, contents), and its commands, in their order."""
    for before, lines, _ in blocks(text):
        file = re.search(r"`([\w-]+\.\w+)`.*:$", before)
        if any(line.startswith("$ ") for line in lines):
            yield from commands(lines)
        elif file:
            yield file[1], "\n".join(lines).rstrip() + "\n"
    prose = re.sub(r"(?m)^    .*\n", "", text)
    inline = re.findall(r"`(plimsoll\s[^`]+)`", prose)
    yield from (Command(" ".join(line.split()), []) for line in inline)


def agree(shown, said):
    """Whether `said` is what is shown, where "…" stands for any text."""
    parts = [" ".join(part.split()) for part in shown.split("…")]
    said = " ".join(said.split())
    if len(parts) == 1:
        return said == parts[0]
    if not said.startswith(parts[0]) or not said.endswith(parts[-1]):
        return False
    at, end = len(parts[0]), len(said) - len(parts[-1])
    for part in parts[1:-1]:
        found = said.find(part, at, max(at, end))
        if found < 0:
            return False
        at = found + len(part)
    return at <= end


class Follower:
    """Runs commands in a folder of their own."""

    def __init__(self, folder, program=PROGRAM):
        self.folder = pathlib.Path(folder)
        self.program = program
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "plimsoll").symlink_to(program)
        (self.folder / MODEL).mkdir(parents=True)
        self.environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "XDG_CACHE_HOME")}
        self.environment.update(
            HOME=folder, CUDA_VISIBLE_DEVICES="", PATH=f"{tools}:{os.environ['PATH']}", PLIMSOLL_MPI_SECONDS=str(SECONDS - 20)
        )

    def run(self, line, typed="", interrupted=False, killed=False):
        """(exit code, what it printed) of a command as a shell takes it."""
        words = shlex.split(line)
        if words[:2] == ["mpirun", "-np"]:
            words = [str(MPIRUN), *words[2:]]
            words[2] = str(self.program)
        if words[0] == "python3":
            words[0] = sys.executable
        to = None
        if ">" in words:
            to = words[words.index(">") + 1]
            words = words[: words.index(">")]
        with tempfile.TemporaryFile("w+") as said, open(self.folder / (to or os.devnull), "w") as file:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=file if to else said,
                stderr=subprocess.STDOUT if not to else said,
                text=True,
            )
            if interrupted:
                self.interrupt(process)
            if killed:
                self.kill_rank_1(process)
            try:
                process.communicate(typed, timeout=SECONDS)
            finally:
                process.kill()
            said.seek(0)
            # What takes longer than two seconds says so, on some machines.
            text = "".join(line for line in said if not re.match(r"[a-z].* …\n", line))
        # mpirun.sh puts the rank before each line, and ends with one of its own.
        text = re.sub(r"(?m)^\[\d+\] ", "", text)
        return process.returncode, re.sub(r"mpirun.sh: (passed|failed).*\n", "", text)

    def interrupt(self, process):
        """SIGINT, once the run has made a step."""
        rows = self.folder / "runs/run/metrics.jsonl"
        for _ in range(100 * SECONDS):
            if process.poll() is not None or rows.exists() and '"grad_norm"' in rows.read_text():
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)

    def kill_rank_1(self, process):
        """SIGKILL for rank 1, once there is a complete snapshot that was not there before."""

        def snapshots():
            return {path for path in self.folder.glob("runs/*/snapshots/step-*") if path.suffix != ".partial"}

        before = snapshots()
        for _ in range(100 * SECONDS):
            if process.poll() is not None or snapshots() - before:
                break
            time.sleep(0.01)
        for found in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                ours = (found / "cwd").resolve() == self.folder.resolve() and (found / "exe").resolve() == PROGRAM
                if ours and b"\0OMPI_COMM_WORLD_RANK=1\0" in (found / "environ").read_bytes():
                    os.kill(int(found.name), signal.SIGKILL)
            except OSError:  # ended, or another user's
                pass

    def write(self, name, text):
        """A file of the page; of the chats, which are only begun there, enough for a run."""
        if name == "chats.jsonl":
            lines = text.splitlines()
            text += "".join(
                lines[i % len(lines)].replace('"}, {"role": "assistant"', f' ({i})"}}, {{"role": "assistant"') + "\n"
                for i in range(len(lines), CHATS)
            )
        (self.folder / name).write_text(text)

    def write_tokenizer(self, folder):
        folder.mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests/data/tokenizers/llama3_style.json", folder / "tokenizer.json")
        shutil.copy(ROOT / "tests/data/chats/llama3.jinja", folder / "chat_template.jinja")
        (folder / "tokenizer_config.json").write_text(
            json.dumps(
                {
                    "tokenizer_class": "PreTrainedTokenizerFast",
                    "bos_token": "<|begin_of_text|>",
                    "eos_token": "<|eot_id|>",
                }
            )
        )


@unittest.skipIf(
    subprocess.run(["python3", "-I", "-c", "import jinja2"], stderr=subprocess.DEVNULL).returncode,
    "chats are not rendered: no jinja2 (apt install python3-jinja2)",
)
class Tutorial(unittest.TestCase):
    def follow(self, does, prepare):
        """Calls `does(follower, command)` for each command of the page; `prepare(follower)` makes the model's folder,
        and makes it whole once the page has written chats."""
        tried, wrong = 0, []
        with tempfile.TemporaryDirectory() as folder:
            follower = Follower(folder)
            prepare(follower, False)
            for step in steps(PAGE.read_text()):
                if isinstance(step, Command):
                    problem = does(follower, step)
                    tried += 1
                    if problem:
                        wrong.append(f"$ {step.line}\n{problem}")
                else:
                    follower.write(*step)
                    if step[0] == "chats.jsonl":
                        prepare(follower, True)
        self.assertEqual(wrong, [], "\n\n".join(wrong))
        self.assertGreaterEqual(tried, 14, "hardly any commands: are they still written as this test expects?")

    def test_plans_of_8b(self):
        def prepare(follower, chats):
            if chats:
                follower.write_tokenizer(follower.folder / MODEL)
            else:
                (follower.folder / MODEL / "config.json").write_text(json.dumps(LLAMA_8B))

        def plan(follower, command):
            if not command.plans:
                return None
            code, said = follower.run(command.line)
            refused = command.shown.startswith("run.yaml:")
            if code != (3 if refused else 0):
                return f"ends with {code} and says\n{said}"
            if command.shown and not agree(command.shown, said):
                return f"shows\n{command.shown}\nand says\n{said}"
            return None

        self.follow(plan, prepare)

    def follow_with_a_small_model(self, python):
        """What each command that answers a chat prints: `generate`, and with `python` the page's script."""
        answers = []

        def prepare(follower, chats):
            if not chats:
                follower.write_tokenizer(follower.folder / "tokenizer")
                follower.write("base.jsonl", '{"text": "a"}\n')
                follower.write("base.yaml", TINY)
                code, said = follower.run("plimsoll train base.yaml")
                self.assertEqual(code, 0, said)
                shutil.copy(follower.folder / "base/model/config.json", follower.folder / MODEL)
            else:
                shutil.copytree(follower.folder / "base/model", follower.folder / MODEL, dirs_exist_ok=True)

        def run(follower, command):
            script = re.fullmatch(r"python3 (\S+)", command.line)
            if script:
                if not python:
                    return None
                path = follower.folder / script[1]
                path.write_text(small(path.read_text()))
            code, said = follower.run(small(command.line), command.typed, command.interrupted)
            if code != (4 if command.interrupted else 0):
                return f"ends with {code} and says\n{said}"
            if script or "--chat" in command.line:
                answers.append(said)
            if command.plans:  # what they say of the small model is not in the page
                planned = " > " in command.line or said.startswith(("fits ", "What each of ", "model.sequence: "))
                return None if planned else f"says\n{said}"
            if not script and not agree(command.shown, said):
                return f"shows\n{command.shown}\nand says\n{said}"
            return None

        self.follow(run, prepare)
        return answers

    def test_all_commands_with_a_small_model(self):
        self.assertEqual(len(self.follow_with_a_small_model(python=False)), 1)

    @unittest.skipUnless(importlib.util.find_spec("peft"), "the page's Python is not run: no peft")
    def test_peft_gives_the_same_answer(self):
        generated, of_peft = self.follow_with_a_small_model(python=True)
        # The first ends where the small model's context does, and standard error follows. Lines of transformers come
        # before the second.
        answer = generated.split("\n")[0].rstrip("\ufffd")
        self.assertGreater(len(answer), 10)
        self.assertIn(answer, of_peft)

    def test_python_is_python(self):
        scripts = [step for step in steps(PAGE.read_text()) if not isinstance(step, Command) and step[0].endswith(".py")]
        self.assertTrue(scripts)
        for name, text in scripts:
            compile(text, name, "exec")

    def test_a_difference_is_found(self):
        said = "step 10/72  loss 6.6  lr 2e-4\nadapter written to runs/run/adapter\n"
        for shown in ("…", "step …/…  loss …\n…\nadapter written to runs/run/adapter", "step 10/72 …", said):
            self.assertTrue(agree(shown, said), shown)
        for shown in ("", "step …", "loss …", "… loss … loss …", "step …/… written to runs/run/adapters", "step 10/72"):
            self.assertEqual(agree(shown, said), shown == "step …", shown)
        text = "Of `a.txt`, a file:\n\n    1\n\nthen\n\n    $ plimsoll a \\\n      b\n    x …\n    ^C\n    y\n    $ c\n    > typed\n\nand `plimsoll\nd`.\n"
        file, first, second, inline = steps(text)
        self.assertEqual(file, ("a.txt", "1\n"))
        self.assertEqual((first.line.split(), first.shown, first.interrupted), (["plimsoll", "a", "b"], "x …\ny", True))
        self.assertEqual((second.line, second.typed, second.shown.strip()), ("c", "typed\n", ""))
        self.assertEqual(inline.line, "plimsoll d")


class AsWritten(unittest.TestCase):
    def follow(self, page, program=PROGRAM, measured=False):
        """Follows a page; of one that shows measured times and losses the rest is compared."""
        tried, wrong, code = 0, [], 0
        with tempfile.TemporaryDirectory() as folder:
            follower = Follower(folder, program)
            (follower.folder / "configs").symlink_to(ROOT / "configs")
            (follower.folder / "text").mkdir()
            for text in (ROOT / "docs").glob("*.md"):
                shutil.copy(text, follower.folder / "text")
            followed = list(steps((TUTORIALS / page).read_text()))
            for step, after in zip(followed, [*followed[1:], None]):
                if not isinstance(step, Command):
                    name, text = step
                    for written, run in SHORTER.items():
                        text = text.replace(written, run)
                    follower.write(name, text)
                    continue
                if step.line.startswith("bazel "):
                    continue
                tried += 1
                if step.line == "echo $?":
                    said = str(code)
                else:
                    code, said = follower.run(step.line, step.typed, step.interrupted, step.killed)
                    if code and not (isinstance(after, Command) and after.line == "echo $?"):
                        wrong.append(f"$ {step.line}\nends with {code} and says\n{said}")
                        continue
                told = without_measurements if measured else str
                if step.shown and not agree(told(step.shown), told(said)):
                    wrong.append(f"$ {step.line}\nshows\n{step.shown}\nand says\n{said}")
        self.assertEqual(wrong, [], "\n\n".join(wrong))
        self.assertGreaterEqual(tried, AS_WRITTEN[page], "hardly any commands: are they still written as this test expects?")

    def test_does_it_fit(self):
        self.follow("does_it_fit.md")

    def test_many_gpus(self):
        self.follow("many_gpus.md")

    def test_ablation(self):
        self.follow("ablation.md", measured=True)

    def test_segment_your_volumes(self):
        self.follow("segment_your_volumes.md")

    def test_your_own_model(self):
        self.follow("your_own_model.md", WITH_EXAMPLES)

    def test_there_is_no_other_tutorial(self):
        pages = {page.name for page in TUTORIALS.iterdir()}
        self.assertEqual(pages, {PAGE.name, *AS_WRITTEN}, "shown_output_test leaves this folder to this test")

    def test_bytes_are_no_measurements(self):
        shown = "block 5.48 MiB 10.8 ~0.879 (0.82 to 0.94) 3.3 ± 0.06 (3) = base in 23 of 40 steps"
        for said in (shown, "block 5.48 MiB 11 0.9 2.95 ± 0.1 (3) = base"):
            self.assertTrue(agree(without_measurements(shown), without_measurements(said)), said)
        for said in (shown.replace("5.48", "5.49"), shown.replace("= base", ""), shown.replace("± 0.06", "")):
            self.assertFalse(agree(without_measurements(shown), without_measurements(said)), said)


if __name__ == "__main__":
    unittest_xml.main()
