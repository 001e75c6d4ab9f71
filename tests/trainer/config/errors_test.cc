// Every mistake is one line that starts with its place and gives the way out: the table below.
// Those of one file are said at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/expect_error.h"
#include "trainer/config/load.h"

namespace plimsoll::config {
namespace {

// A complete configuration on one line, to which a case adds its mistake from line 2 on.
const std::string kModel =
    "model: {family: gpt2, layers: 2, width: 64, heads: 4, vocab: 256, sequence: 32}\n";
const std::string kData = "data: {synthetic: true}\n";
const std::string kBase = kModel + kData;  // lines 1 and 2
const std::string kLlama =
    "{family: llama, layers: 2, width: 64, heads: 4, vocab: 256, sequence: 32, ";

std::string ErrorOf(const std::string& text, const std::vector<std::string>& sets = {},
                    int64_t ranks = 1) {
  try {
    LoadText(text, "run.yaml", sets, ranks);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ExitCode::kUserMistake);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "no error";
}

struct Case {
  std::string text;
  std::string error;
};

void Check(const std::vector<Case>& cases) {
  for (const Case& c : cases) EXPECT_EQ(ErrorOf(c.text), c.error) << c.text;
}

// Each text follows the base, and its error is at line 3.
void CheckLine(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    EXPECT_EQ(ErrorOf(kBase + c.text + "\n"), "run.yaml:3: " + c.error) << c.text;
  }
}

TEST(ConfigErrors, TheBaseOfTheTableIsRight) { EXPECT_EQ(ErrorOf(kBase), "no error"); }

// Nobody has to start a run once for each mistake.
TEST(ConfigErrors, AllAreSaidAtOnce) {
  const auto all = [](const std::string& text, const std::vector<std::string>& sets) {
    try {
      LoadText(text, "run.yaml", sets);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(all(kBase + "optimizer: {lrr: 1, name: adagrad}\ntrain: {steps: many}\nmodle: {}\n",
                {"train.stepz=3", "amp.dtype=fp8"}),
            "run.yaml:3: optimizer.lrr: unknown key, did you mean optimizer.lr?\n"
            "run.yaml:5: modle: unknown key, did you mean model?\n"
            "--set: train.stepz: unknown key, did you mean train.steps?\n"
            "--set: amp.dtype: \"fp8\" is not one of fp32, tf32, bf16, fp16\n"
            "run.yaml:3: optimizer.name: \"adagrad\" is not one of adamw, sgd, muon\n"
            "run.yaml:4: train.steps: expected an integer, got \"many\"");
  // Contradictions, where all values are right by themselves.
  EXPECT_EQ(
      all(kBase + "train: {global_batch: 7, early_stop: 2, eval_every: 0}\n", {}),
      "run.yaml:3: train.early_stop: needs evaluations; set train.eval_every\n"
      "run.yaml:3: train.global_batch: 7 sequences are not a multiple of train.micro_batch 8 × "
      "1 data rank = 8; use 8, or another train.micro_batch");
  std::string many = kBase + "train: {";
  for (int i = 0; i < 30; ++i) many += "k" + std::to_string(i) + ": 1, ";
  EXPECT_TRUE(all(many + "}\n", {}).ends_with("\nand 10 more"));
}

// How many ranks there are is said before what they would share.
TEST(ConfigErrors, OtherRanksThanTheMeshHas) {
  const std::string yaml = kBase + "parallel: {data: 3}\ntrain: {global_batch: 4}\n";
  ExpectUserError(
      [&] { LoadText(yaml, "run.yaml", {}, RankCount::Started(4)); },
      {"run.yaml:3: parallel.data: 3 data × 1 tensor × 1 pipeline ranks need mpirun -np "
       "3, but 4 ranks were started"});
  // A number to go by asks nothing of the mesh.
  EXPECT_EQ(ErrorOf(kBase + "parallel: {data: 3}\n", {}, 4), "no error");
}

TEST(ConfigErrors, UnknownKeys) {
  CheckLine({
      {"optimzer: {lr: 1}", "optimzer: unknown key, did you mean optimizer?"},
      {"train: {lr: 1}", "train.lr: unknown key, did you mean optimizer.lr?"},
      {"batch_size: 3", "batch_size: unknown key, did you mean train.micro_batch?"},
      {"train: {learning_rate: 1}", "train.learning_rate: unknown key, did you mean optimizer.lr?"},
      {"train: {step: 3}", "train.step: unknown key, did you mean train.steps?"},
      {"train: {eval_batches: 3}",
       "train.eval_batches: is train.eval_sequences now, which counts sequences and not "
       "micro-batches; write eval_batches times micro_batch there (0 is still all held-out data)"},
      {"extend: x", "extend: unknown key, did you mean extends?"},
      {"train: {xyzzy: 3}", "train.xyzzy: unknown key; plimsoll config --reference lists all keys"},
      {"train.steps: 3", "train.steps: dotted keys are for --set; write train: {steps: …}"},
      {"amp.fp8.recipe: current",
       "amp.fp8.recipe: dotted keys are for --set; write amp: {fp8: {recipe: …}}"},
      {"amp: {fp8.recipe: current}",
       "fp8.recipe: dotted keys are for --set; write amp: {fp8: {recipe: …}}"},
      {"amp: {fp8: {recipee: current}}",
       "amp.fp8.recipee: unknown key, did you mean amp.fp8.recipe?"},
      {"amp: {recipe: current}", "amp.recipe: unknown key, did you mean amp.fp8.recipe?"},
      {"\"a\\nb\": 3", "\"a\\nb\": unknown key; plimsoll config --reference lists all keys"},
  });
  Check({
      {kBase + "amp:\n  dtpye: bf16\n",
       "run.yaml:4: amp.dtpye: unknown key, did you mean amp.dtype?"},
  });
}

TEST(ConfigErrors, Checkpointing) {
  Check({
      {kBase + "checkpointing:\n  policy: selective\n  recompute: []\n",
       "run.yaml:5: checkpointing.recompute: is empty, which leaves policy `selective` nothing to "
       "do; name what to recompute, such as [norms, activations], or set "
       "checkpointing.policy: none"},
  });
}

TEST(ConfigErrors, MixedPrecision) {
  CheckLine({
      {"amp: {fp8: {recipe: blocks}}",
       "amp.fp8.recipe: \"blocks\" is not one of none, current, delayed"},
      {"amp: {fp8: {recipe: current}}",
       "amp.fp8.recipe: current needs amp.dtype: bf16 or fp16, not fp32; set one of them, or "
       "remove it"},
      {"amp: {dtype: tf32, fp8: {recipe: current}}",
       "amp.fp8.recipe: current needs amp.dtype: bf16 or fp16, not tf32 (run.yaml:3); set one of "
       "them, or remove it"},
      {"amp: {dtype: fp16, backoff_factor: 1}",
       "amp.backoff_factor: 1 is out of range; it must be above 0 and below 1"},
  });
  Check({
      {kBase + "amp:\n  dtype: fp16\n  master_weights: false\n",
       "run.yaml:5: amp.master_weights: false needs amp.dtype: bf16 (run.yaml:4); remove it, or "
       "use "
       "bf16, whose updates can round stochastically"},
      {kBase + "amp:\n  dtype: fp16\n  init_scale: 1\n  min_scale: 2\n",
       "run.yaml:5: amp.init_scale: 1 is below amp.min_scale 2 (run.yaml:6); raise it, or lower "
       "the "
       "other"},
      {kBase + "amp:\n  dtype: fp16\n  init_scale: 0.5\n",
       "run.yaml:5: amp.init_scale: 0.5 is below amp.min_scale 1; raise it, or lower the other"},
      {kBase + "amp:\n  dtype: fp16\n  min_scale: 131072\n",
       "run.yaml:5: amp.min_scale: 131072 is above amp.init_scale 65536; lower it, or raise the "
       "other"},
  });
}

TEST(ConfigErrors, WrongTypes) {
  CheckLine({
      {"train: {steps: ten}", "train.steps: expected an integer, got \"ten\""},
      {"train: {steps: 1e5}", "train.steps: expected an integer, got \"1e5\"; write 100000"},
      {"train: {steps: 1.5}", "train.steps: expected an integer, got \"1.5\""},
      {"train: {steps: \"10\"}", "train.steps: expected an integer, got \"10\"; remove the quotes"},
      {"train: {steps: 99999999999999999999}",
       "train.steps: expected an integer, got \"99999999999999999999\""},
      {"train: {steps: [1]}", "train.steps: expected an integer, got a list"},
      {"train: {steps: }", "train.steps: has no value; give one or remove it"},
      {"train: 3", "train: expected keys of this section, got \"3\""},
      {"amp: {fp8: current}", "amp.fp8: expected keys of this section, got \"current\""},
      {"optimizer: {lr: fast}", "optimizer.lr: expected a number, got \"fast\""},
      {"optimizer: {lr: .nan}", "optimizer.lr: expected a number, got \".nan\""},
      {"optimizer: {lr: nan}", "optimizer.lr: expected a number, got \"nan\""},
      {"optimizer: {lr: 1e999}", "optimizer.lr: expected a number, got \"1e999\""},
      {"optimizer: {betas: 0.9}", "optimizer.betas: expected two numbers, [a, b], got \"0.9\""},
      {"optimizer: {betas: [0.9]}",
       "optimizer.betas: expected two numbers, [a, b], got a list of 1"},
      {"optimizer: {betas: [0.9, x]}", "optimizer.betas[1]: expected a number, got \"x\""},
      {"optimizer: {nesterov: yes, name: sgd}",
       "optimizer.nesterov: expected true or false, got \"yes\""},
      {"optimizer: {name: adam}",
       "optimizer.name: \"adam\" is not one of adamw, sgd, muon; did you mean adamw?"},
      {"amp: {dtype: bfloat16}",
       "amp.dtype: \"bfloat16\" is not one of fp32, tf32, bf16, fp16; did you mean bf16?"},
      {"optimizer: {schedule: cosine}",
       "optimizer.schedule: unknown key, did you mean schedule.name?"},
      {"memory: {budget: plenty}",
       "memory.budget: expected a size like 24GiB, 90% or free - 1GiB, got \"plenty\""},
      {"parallel: {data: all}", "parallel.data: expected auto or an integer, got \"all\""},
      {"optimizer: {weight_decay_groups: [{pattern: x}]}",
       "optimizer.weight_decay_groups[0]: weight_decay is missing"},
      {"optimizer: {weight_decay_groups: [{weight_decay: 1}]}",
       "optimizer.weight_decay_groups[0]: pattern is missing"},
      {"optimizer: {weight_decay_groups: [{pattern: x, weight_decay: -1}]}",
       "optimizer.weight_decay_groups[0].weight_decay: -1 is out of range; it must be at least 0"},
      {"optimizer: {weight_decay_groups: [{pattern: x, decay: 1}]}",
       "optimizer.weight_decay_groups[0]: \"decay\": unknown key; a group has pattern and "
       "weight_decay"},
  });
  Check({
      {kModel + "data: {train: {a: b}}\n",
       "run.yaml:2: data.train: expected a string, a list of strings or a list of {files: …, "
       "weight: …}, got a map"},
      {kModel + "data:\n  train:\n    - {files: a, weight: 2}\n    - b\n",
       "run.yaml:5: data.train[1]: expected {files: …, weight: …}, got \"b\"; give every source a "
       "weight, or none"},
      {kModel + "data:\n  train:\n    - files: a\n      weight: 0\n",
       "run.yaml:5: data.train[0].weight: 0 is out of range; it must be between 1e-06 and 1000000"},
      {kModel + "data:\n  train:\n    - files: a\n      weight: two\n",
       "run.yaml:5: data.train[0].weight: expected a number, got \"two\""},
      {kModel + "data:\n  train:\n    - files: a\n      weight: .nan\n",
       "run.yaml:5: data.train[0].weight: expected a number, got \".nan\""},
      {kModel + "data:\n  train:\n    - {file: a}\n",
       "run.yaml:4: data.train[0]: \"file\": unknown key; a source has files and weight"},
      {kModel + "data:\n  train:\n    - {weight: 2}\n",
       "run.yaml:4: data.train[0]: files is missing"},
      {kModel + "data: {train: [a, [b]]}\n",
       "run.yaml:2: data.train[1]: expected a string, got a list"},
  });
}

TEST(ConfigErrors, OutOfRange) {
  CheckLine({
      {"train: {steps: 0}",
       "train.steps: 0 is out of range; it must be between 1 and 1000000000000"},
      {"train: {seed: -1}",
       "train.seed: -1 is out of range; it must be between 0 and 9007199254740992"},
      {"train: {steps: 9223372036854775807}",
       "train.steps: 9223372036854775807 is out of range; it must be between 1 and 1000000000000"},
      {"train: {threads: 5000}",
       "train.threads: 5000 is out of range; it must be between 0 and 4096"},
      {"train: {micro_batch: 100000000}",
       "train.micro_batch: 100000000 is out of range; it must be between 1 and 10000000"},
      {"optimizer: {betas: [0.9, 1]}",
       "optimizer.betas: 1 is out of range; it must be at least 0 and below 1"},
      {"optimizer: {eps: 0}", "optimizer.eps: 0 is out of range; it must be above 0 and below 1"},
      {"optimizer: {lr: -0.5}",
       "optimizer.lr: -0.5 is out of range; it must be between 0 and 1000"},
      {"parallel: {zero: 4}", "parallel.zero: 4 is out of range; it must be between 0 and 3"},
  });
}

// What programs would compute with is another number.
TEST(ConfigErrors, OutOfTheRangeOfFloat32) {
  CheckLine({
      {"optimizer: {eps: 1e-46}",
       "optimizer.eps: 1e-46 is too small for float32; it must be at least 1.1754944e-38"},
      {"optimizer: {lr: 1e-50}",
       "optimizer.lr: 1e-50 is too small for float32; it must be 0, or at least 1.1754944e-38"},
      {"optimizer: {weight_decay_groups: [{pattern: x, weight_decay: 1e-50}]}",
       "optimizer.weight_decay_groups: 1e-50 is too small for float32; it must be 0, or at least "
       "1.1754944e-38"},
      {"optimizer: {clip_grad_norm: 1e39}",
       "optimizer.clip_grad_norm: 1e+39 is too large for float32; it must be at most "
       "3.4028235e+38"},
      {"optimizer: {betas: [0.9, 0.99999999]}",
       "optimizer.betas: 0.99999999 is 1 in float32; it must be at least 0 and below 1"},
      {"optimizer: {ema: 0.999999999}",
       "optimizer.ema: 0.999999999 is 1 in float32; it must be at least 0 and below 1"},
  });
  Check({
      {kData + "model: " + kLlama + "norm_eps: 1e-46}\n",
       "run.yaml:2: model.norm_eps: 1e-46 is too small for float32; it must be at least "
       "1.1754944e-38"},
  });
  EXPECT_EQ(ErrorOf(kBase + "optimizer: {eps: 2e-38, lr: 0, betas: [0, 0.99999994]}\n"),
            "no error");
}

// What goes with each of these only on the whole model.
TEST(ConfigErrors, PipelineStagesRefuseByName) {
  const std::string with = ": with pipeline stages (parallel.pipeline: 2): ";
  const auto check = [&](const std::string& parallel, const std::string& others,
                         const std::string& key, const std::string& reason) {
    const std::string text =
        kBase + "parallel: {pipeline: 2" + parallel + "}" + (others.empty() ? "" : "\n") + others;
    const std::string line = others.empty() ? "3" : "4";
    EXPECT_EQ(ErrorOf(text + "\n"), "run.yaml:" + line + ": " + key + with + reason);
  };
  check(", zero: 2", "", "parallel.zero",
        "2 and 3 sum or gather in every micro-step, between a stage's sends; use 1, or 0");
  check("", "optimizer: {ema: 0.9}", "optimizer.ema",
        "exchanges the weights of the whole model; set it to 0");
  check("", "optimizer: {in_backward: true}", "optimizer.in_backward",
        "carries no gradients, which the backward passes of a stage add up; use false");
  check("", "memory: {weights: host}", "memory.weights",
        "needs copies of the whole step's program; use device");
  check("", "checkpointing: {offload: [activations]}", "checkpointing.offload",
        "copies would have to begin in one program and end in another; use recomputation");
}

TEST(ConfigErrors, TechniquesThatAreAskedForAsTheyAreByDefault) {
  EXPECT_EQ(
      ErrorOf(kBase + "amp: {dtype: fp32, loss_scale: auto, master_weights: true}\ncheckpointing: "
                      "{policy: none}\n"
                      "memory: {allocator: planned, summary: true}\n"
                      "parallel: {data: 1, tensor: 1, pipeline: 1, zero: 0, sequence: false}\n"
                      "device: cpu\nsave: {every: 0}\n"),
      "no error");
}

TEST(ConfigErrors, Shapes) {
  Check({
      {kData,
       "run.yaml:1: model.family: missing; give bert, dcgan, gemma2, gemma3_text, gpt2, llama, "
       "mistral, phi3, qwen2, qwen3, resnet, unet, vit, or model.init_from"},
      {kData + "model: {family: gpt2}\n",
       "run.yaml:2: model.layers: missing; give it, or extend a file of configs/models"},
      {kData + "model: {family: gpt2, layers: 1, width: 8, heads: 1, sequence: 4}\n",
       "run.yaml:2: model.vocab: missing; give the number of token ids, or data.tokenizer, "
       "which has it"},
      {kData + "model: {family: gpt2, layers: 1, width: 8, heads: 1, vocab: 4}\n",
       "run.yaml:2: model.sequence: missing; give the tokens per training sequence"},
      {kData + "model:\n  family: gpt2\n  layers: 1\n  width: 768\n  heads: 7\n  vocab: 9\n  "
               "sequence: 4\n",
       "run.yaml:6: model.heads: 7 heads do not divide model.width 768 (run.yaml:5); use 6 or 8"},
      {kData + "model: " + kLlama + "kv_heads: 3}\n",
       "run.yaml:2: model.kv_heads: 3 do not divide model.heads 4 (run.yaml:2); use 2"},
      {kData + "model: " + kLlama + "head_width: 5}\n",
       "run.yaml:2: model.head_width: heads are 5 wide; a rotary embedding needs an even width"},
      {kData + "model: " + kLlama + "max_sequence: 16}\n",
       "run.yaml:2: model.sequence: 32 tokens, but the model allows 16 (model.max_sequence "
       "(run.yaml:2)); shorten it"},
      {kData + "model: " + kLlama + "dropout: 0.1}\n",
       "run.yaml:2: model.dropout: has no meaning for model.family: llama; remove it"},
      {kData + "model: " + kLlama + "hidden_dropout: 0.1}\n",
       "run.yaml:2: model.hidden_dropout: has no meaning for model.family: llama; remove it"},
      {kData + "model: " + kLlama + "attention_dropout: 1}\n",
       "run.yaml:2: model.attention_dropout: 1 is out of range; it must be at least 0 and below 1"},
      {kData + "model: {family: bert, embedding_dropout: 0.1}\n",
       "run.yaml:2: model.embedding_dropout: has no meaning for model.family: bert; remove it"},
      {kData + "model: {family: gpt2, layers: 1, width: 8, heads: 1, vocab: 4, sequence: 4, "
               "rope_theta: 3}\n",
       "run.yaml:2: model.rope_theta: has no meaning for model.family: gpt2; remove it"},
      {kData + "model: " + kLlama + "rope_type: linear}\n",
       "run.yaml:2: model.rope_factor: missing; say by how much longer texts than before are read, "
       "as in 4"},
      {kData + "model: " + kLlama + "rope_factor: 2}\n",
       "run.yaml:2: model.rope_factor: has no meaning for model.rope_type: default; remove it"},
      {kData + "model: " + kLlama + "rope_type: yarn, rope_factor: 4}\n",
       "run.yaml:2: model.rope_original_sequence: missing; say how long texts were before "
       "`rope_factor`, as in 4096"},
      {kData + "model: " + kLlama +
           "rope_type: linear, rope_factor: 2, rope_original_sequence: 64}\n",
       "run.yaml:2: model.rope_original_sequence: has no meaning for model.rope_type: linear; "
       "remove it"},
      {kData + "model: " + kLlama + "rotary_width: 4}\n",
       "run.yaml:2: model.rotary_width: has no meaning for model.family: llama; remove it"},
      {kData + "model: {family: phi3, layers: 1, width: 8, heads: 1, vocab: 4, sequence: 4, "
               "rope_type: linear}\n",
       "run.yaml:2: model.rope_type: has no meaning for model.family: phi3; remove it"},
      {kData + "model: " + kLlama + "rope_type: linear, rope_factor: 0.5}\n",
       "run.yaml:2: model.rope_factor: 0.5 is out of range; it must be between 1 and 1000000"},
      {kData + "model: {init_from: gpt2, layers: 3}\n",
       "run.yaml:2: model.layers: comes from the checkpoint of model.init_from (run.yaml:2); "
       "remove one of the two"},
      {kData + "model: {init_from: gpt2, family: gpt2}\n",
       "run.yaml:2: model.family: comes from the checkpoint of model.init_from (run.yaml:2); "
       "remove one of the two"},
  });
}

TEST(ConfigErrors, Data) {
  CheckLine({
      {"train: {early_stop: 3, eval_every: 0}",
       "train.early_stop: needs evaluations; set train.eval_every"},
      {"train: {sample_every: 3}",
       "train.sample_every: needs data.tokenizer to turn tokens into text"},
  });
  Check({
      {kModel, "run.yaml:1: data.train: missing; name files, or set data.synthetic: true"},
      {kModel + "data: {synthetic: true, train: a.bin}\n",
       "run.yaml:2: data.synthetic: true, but data.train names files (run.yaml:2); keep one"},
      {kModel + "data: {train: a.txt, format: text}\n",
       "run.yaml:2: data.tokenizer: missing; text needs one: byte, or a tokenizer.json"},
      {kModel + "data: {train: a, eval: b, eval_fraction: 0.1}\n",
       "run.yaml:2: data.eval_fraction: holds out training text, but data.eval names files "
       "(run.yaml:2); keep one"},
      {"model: {family: gpt2, layers: 1, width: 8, heads: 1, vocab: 100, sequence: 4}\n"
       "data: {train: a, tokenizer: byte}\n",
       "run.yaml:1: model.vocab: 100, but data.tokenizer: byte gives 256 token ids (run.yaml:2)"},
      {kModel + "data: {train: a}\ntrain: {early_stop: 3}\n",
       "run.yaml:3: train.early_stop: needs held-out data; set data.eval or data.eval_fraction"},
  });
}

TEST(ConfigErrors, SourcesOfTheirOwnKeys) {
  const std::string images = kModel + "data: {source: images, folder: f, ";
  Check({
      {kModel + "data: {source: images}\n",
       "run.yaml:2: data.folder: missing; name the folder with the images' files"},
      {images + "mean: grey}\n", "run.yaml:2: data.mean: expected a number, got \"grey\""},
      {images + "mean: {red: 1}}\n",
       "run.yaml:2: data.mean: expected a number or a list of numbers, got a map"},
      {images + "mean: [0.5, red]}\n", "run.yaml:2: data.mean[1]: expected a number, got \"red\""},
      {images + "mean: [0.5, -0.1]}\n",
       "run.yaml:2: data.mean: -0.1 is out of range; it must be at least 0"},
      {images + "std: 0}\n", "run.yaml:2: data.std: 0 is out of range; it must be at least 1e-06"},
  });
}

TEST(ConfigErrors, BatchArithmeticIsShown) {
  CheckLine({
      {"train: {micro_batch: 32, global_batch: 100}",
       "train.global_batch: 100 sequences are not a multiple of train.micro_batch 32 × 1 data rank "
       "= 32; use 96 or 128, or another train.micro_batch"},
      {"train: {micro_batch: 32, global_batch: 16}",
       "train.global_batch: 16 sequences are not a multiple of train.micro_batch 32 × 1 data rank "
       "= 32; use 32, or another train.micro_batch"},
      {"train: {global_batch_tokens: 1000}",
       "train.global_batch_tokens: 1000 tokens are not a multiple of model.sequence 32 "
       "(run.yaml:1); use 992 or 1024"},
      {"train: {global_batch_tokens: 512, global_batch: 8}",
       "train.global_batch_tokens: 512 tokens / model.sequence 32 = 16 sequences, but "
       "train.global_batch is 8 (run.yaml:3); keep one of the two"},
  });
  Check({
      {kBase + "train:\n  micro_batch: 8\n  accumulate: 4\n  global_batch: 64\n",
       "run.yaml:6: train.global_batch: 64 sequences, but train.micro_batch 8 × train.accumulate 4 "
       "× 1 data rank = 32; "
       "remove train.accumulate (run.yaml:5) or set it to 8"},
  });
  EXPECT_EQ(
      ErrorOf(kBase + "train: {micro_batch: 8, global_batch: 50}\n", {}, 4),
      "run.yaml:3: train.global_batch: 50 sequences do not spread over 4 data ranks; use 48 or 52");
  EXPECT_EQ(
      ErrorOf(kBase + "train: {micro_batch: 8, accumulate: 2, global_batch: 48}\n", {}, 4),
      "run.yaml:3: train.global_batch: 48 sequences are not a multiple of train.micro_batch 8 × 4 "
      "data ranks = 32; use 32 or 64, or another train.micro_batch");
}

// The number of micro-steps derived from a batch is limited like train.accumulate.
TEST(ConfigErrors, BatchesOfTooManyMicroSteps) {
  CheckLine({
      {"train: {micro_batch: 2, global_batch: 1000000000}",
       "train.global_batch: 1000000000 sequences in micro-steps of train.micro_batch 2 × 1 data "
       "rank make 500000000 micro-steps an update, more than 10000000; raise train.micro_batch, or "
       "lower this"},
      {"train: {micro_batch: 1, global_batch_tokens: 1000000000000000}",
       "train.global_batch_tokens: 31250000000000 sequences in micro-steps of train.micro_batch 1 "
       "× 1 data rank make 31250000000000 micro-steps an update, more than 10000000; raise "
       "train.micro_batch, or lower this"},
      // A prime number: either one micro-step, or one for each sequence.
      {"train: {micro_batch: auto, global_batch: 1000000007}",
       "train.global_batch: 1000000007 sequences cannot be cut: neither train.micro_batch nor the "
       "micro-steps may be more than 10000000; use another number"},
  });
}

TEST(ConfigErrors, Schedules) {
  CheckLine({
      {"schedule: {min_lr: 0.1}",
       "schedule.min_lr: 0.1 is more than optimizer.lr 0.0003; lower it"},
      {"schedule: {name: wsd, decay_steps: 3, decay_fraction: 0.1}",
       "schedule.decay_steps: says what schedule.decay_fraction (run.yaml:3) says; keep one"},
  });
  Check({
      {kBase + "train: {steps: 10}\nschedule: {name: wsd, warmup: 6, decay_fraction: 0.5}\n",
       "run.yaml:4: schedule.decay_fraction: warmup 6 + decay 5 = 11 steps, but train.steps is 10 "
       "(run.yaml:3)"},
  });
}

TEST(ConfigErrors, Epochs) {
  CheckLine({
      {"train: {steps: 10, epochs: 2}",
       "train.epochs: says what train.steps (run.yaml:3) says; keep one"},
      {"train: {eval_every: 10, eval_every_epochs: 1}",
       "train.eval_every_epochs: says what train.eval_every (run.yaml:3) says; keep one"},
      {"schedule: {warmup: 10, warmup_epochs: 1}",
       "schedule.warmup_epochs: says what schedule.warmup (run.yaml:3) says; keep one"},
      {"schedule: {name: multistep, milestones: 5, milestone_epochs: 1}",
       "schedule.milestone_epochs: says what schedule.milestones (run.yaml:3) says; keep one"},
      {"train: {epochs: -1}", "train.epochs: -1 is out of range; it must be between 0 and 1000000"},
  });
}

TEST(ConfigErrors, Milestones) {
  CheckLine({
      {"schedule: {name: multistep}",
       "schedule.milestones: missing; multistep needs the steps at which the learning rate falls, "
       "or schedule.milestone_epochs"},
      {"schedule: {name: multistep, milestones: [20, 10]}",
       "schedule.milestones: are to rise from one to the next"},
      {"schedule: {name: multistep, milestones: [2.5]}",
       "schedule.milestones: are whole steps; schedule.milestone_epochs counts in epochs"},
      {"schedule: {name: multistep, milestones: [5], gamma: 2}",
       "schedule.gamma: 2 is out of range; it must be above 0 and at most 1"},
  });
}

TEST(ConfigErrors, Yaml) {
  CheckLine({
      {"train: {steps: 3, steps: 4}", "steps: given twice, first at run.yaml:3; keep one"},
      {"train: *nowhere",
       "train: *nowhere is an alias in YAML, and has no anchor; put text that begins with * in "
       "quotes: \"*nowhere\""},
      {"amp: {dtype: bf16, fp8: {skip: *}}",
       "amp.fp8.skip: * is an alias in YAML, and has no anchor; put text that begins with * in "
       "quotes: \"*\""},
      {"---\ntrain: {}", "a second YAML document starts here; keep one"},
      {"train: !python/object {}", "tag \"!python/object\" is not supported; remove it"},
      {"? [a]\n: b", "expected a key, got a list"},
      {"train: {<<: 3}", "<<: expected a map to merge, got \"3\""},
      {"run: {dir: \"a\\0b\"}", "\"a\\x00b\" holds a control character; remove it"},
      {"run: {dir: \xff}", "byte 0xff is not text; a configuration is UTF-8 YAML"},
      {"extends: other.yaml", "extends: only a file can extend another"},
  });
  Check({
      {"- a\n- b\n", "run.yaml:1: expected a map of sections (model: …), got a list"},
      {"hello\n", "run.yaml:1: expected a map of sections (model: …), got \"hello\""},
      {kBase + "train: {steps: 3}\ntrain: {seed: 3}\n",
       "run.yaml:4: train: given twice, first at run.yaml:3; keep one"},
      {kBase + "train: {steps: 3\n", "run.yaml:4: not valid YAML: end of map flow not found"},
  });
}

TEST(ConfigErrors, Sets) {
  const auto error = [](const std::string& set) { return ErrorOf(kBase, {set}); };
  EXPECT_EQ(error("train.steps=ten"), "--set: train.steps: expected an integer, got \"ten\"");
  EXPECT_EQ(error("train.step=1"), "--set: train.step: unknown key, did you mean train.steps?");
  EXPECT_EQ(error("train=1"),
            "--set: train: is a section; name one of its keys, as in --set train.steps=100");
  EXPECT_EQ(error("train=auto"), error("train=1"));
  EXPECT_EQ(error("amp.fp8=current"),
            "--set: amp.fp8: is a section; name one of its keys, as in --set train.steps=100");
  EXPECT_THAT(error("parallel=any"), testing::HasSubstr("parallel: is a section"));
  EXPECT_EQ(error("train.steps"),
            "--set: \"train.steps\": write key=value, as in --set train.steps=100");
  EXPECT_EQ(error("train.steps="), "--set: train.steps: has no value; give one or remove it");
  EXPECT_EQ(error("optimizer.betas=[0.9"),
            "--set: optimizer.betas: not valid YAML: end of sequence flow not found");
  EXPECT_EQ(error("amp.fp8.skip=[*.mlp.*]"),
            "--set: amp.fp8.skip: *.mlp.* is an alias in YAML, and has no anchor; put text that "
            "begins with * in quotes: \"*.mlp.*\"");
  EXPECT_EQ(error("schedule.min_lr=1"),
            "--set: schedule.min_lr: 1 is more than optimizer.lr 0.0003; lower it");
  EXPECT_EQ(error("extends=x.yaml"), "--set: extends: belongs in the file");
}

TEST(ConfigErrors, Environment) {
  CheckLine({
      {"run: {dir: \"${PLIMSOLL_NO_SUCH_NAME}\"}",
       "environment variable PLIMSOLL_NO_SUCH_NAME is not set; set it or write "
       "${PLIMSOLL_NO_SUCH_NAME:-default}"},
      {"run: {dir: \"${A\"}", "\"${A\" has no closing }; write $${ for a plain ${"},
      {"run: {dir: \"${A B}\"}",
       "\"${A B}\" is not ${NAME} or ${NAME:-default}; write $${ for a plain ${"},
  });
}

// `files` are read for extends; `first` is loaded.
std::string ErrorOfFiles(const std::map<std::string, std::string>& files,
                         const std::string& first) {
  const FileReader read = [&](const std::string& path) {
    const auto found = files.find(path);
    if (found == files.end()) throw UserError(path + ": no such file");
    return found->second;
  };
  return UserErrorOf([&] { LoadText(files.at(first), first, {}, 1, read); });
}

TEST(ConfigErrors, Extends) {
  EXPECT_EQ(ErrorOfFiles({{"d/run.yaml", "extends: base.yaml\n"},
                          {"d/base.yaml", kBase + "\ntrain: {stepps: 3}\n"}},
                         "d/run.yaml"),
            "d/base.yaml:4: train.stepps: unknown key, did you mean train.steps?");
  EXPECT_EQ(ErrorOfFiles({{"d/run.yaml", "extends: ../x.yaml\n"}}, "d/run.yaml"),
            "d/run.yaml:1: extends: x.yaml: no such file");
  EXPECT_EQ(ErrorOfFiles({{"a.yaml", "extends: b.yaml\n"}, {"b.yaml", "\nextends: ./a.yaml\n"}},
                         "a.yaml"),
            "b.yaml:2: extends: a.yaml extends itself (a.yaml → b.yaml → a.yaml)");
  // A very long name is shortened in the message.
  const std::string message =
      ErrorOfFiles({{"d/run.yaml", "extends: " + std::string(9000, 'x') + "\n"}}, "d/run.yaml");
  EXPECT_LT(message.size(), 200u);
  EXPECT_EQ(message.find("d/run.yaml:1: extends: d/xxx"), 0u) << message;
  EXPECT_NE(message.find("no such file"), std::string::npos) << message;
  // A mistake of an outer file is reported at its own place, together with the other place.
  EXPECT_EQ(ErrorOfFiles({{"a.yaml", "extends: b.yaml\noptimizer: {lr: 0.1}\n"},
                          {"b.yaml", kBase + "schedule: {min_lr: 1}\n"}},
                         "a.yaml"),
            "b.yaml:3: schedule.min_lr: 1 is more than optimizer.lr 0.1 (a.yaml:2); lower it");
}

TEST(ConfigErrors, ExtendsIsBounded) {
  std::map<std::string, std::string> chain, tree;
  for (int i = 0; i < 40; ++i) {
    const std::string name = std::to_string(i) + ".yaml", next = std::to_string(i + 1) + ".yaml";
    chain[name] = "extends: " + next + "\n";
    tree[name] = i == 10 ? kBase : "extends: [" + next + ", " + next + "]\n";
  }
  const std::string bound = "extends: more than 16 files in a row or 64 in all";
  EXPECT_NE(ErrorOfFiles(chain, "0.yaml").find(bound), std::string::npos);
  EXPECT_NE(ErrorOfFiles(tree, "0.yaml").find(bound), std::string::npos);
}

TEST(ConfigErrors, Files) {
  EXPECT_EQ(UserErrorOf([] { Load("no/such.yaml"); }), "no/such.yaml: no such file");
  EXPECT_EQ(UserErrorOf([] { Load("configs"); }), "configs: is a folder; name a file");
}

}  // namespace
}  // namespace plimsoll::config
