// The table of keys: path, field, description and range.

#include <algorithm>
#include <utility>

#include "trainer/config/key_rows.h"
#include "trainer/config/learning_keys.h"
#include "trainer/config/owner_keys.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

void ModelKeys(std::vector<Key>& keys) {
  using M = ModelConfig;
  SectionKeys<M> model(keys, "model", &RunConfig::model);
  model.Add("init_from", &M::init_from,
            "Hugging Face folder (`config.json`, `model.safetensors`) to start from; it says "
            "everything about the "
            "model but settings that it does not fix (`dropout`, `sequence`, `classes`, …).");
  model.Add("family", &M::family, "Architecture.")
      .As(Type::kEnum)
      .Choices(OwnersOf("model"))
      .Derived("required without `init_from`");
  for (Key& key : OwnersKeys("model")) keys.push_back(std::move(key));
  model.Add("attention", &M::attention,
            "How training and its evaluations compute attention: by kernels that never have all "
            "scores in memory, or with scores and probabilities stored as tensors, as frameworks "
            "without such kernels do (docs/kernels.md).");
  model.Add("seed", &M::seed, "Seed of initial weights, those of adapters included.")
      .Between(0, kSeeds)
      .Derived("`train.seed`");
}

void DataKeys(std::vector<Key>& keys) {
  using D = DataConfig;
  SectionKeys<D> data(keys, "data", &RunConfig::data);
  data.Add("source", &D::source,
           "Where samples come from: `tokens`, files of tokens or text, or a source that the "
           "program "
           "was built with (docs/extending.md).")
      .As(Type::kEnum)
      .Choices(OwnersOf("data"));
  const size_t first = keys.size();
  data.Add("train", &D::train,
           "Files to train on: path, glob or a list of them, relative to the working directory; or "
           "several sources, `[{files: …, weight: 2}, …]`, which the sequences come from in the "
           "ratio "
           "of their weights (1 unless given), however large they are (docs/data.md).")
      .Derived("required without `synthetic`");
  data.Add("eval", &D::eval, "Files to evaluate on.");
  data.Add("exclude", &D::exclude,
           "Globs; files of `train` and `eval` whose names match are left out.");
  data.Add("synthetic", &D::synthetic,
           "Seeded random tokens, no files: for plans, benchmarks and studies. Set in a later "
           "layer it takes the "
           "place of an earlier `train`, and the other way round.");
  data.Add("order", &D::order,
           "Order of windows: shuffled by seed and step, or one after the other.");
  data.Add("seed", &D::seed, "Seed of the order of samples, and of what is made up.")
      .Between(0, kSeeds)
      .Derived("`train.seed`");
  data.Add("format", &D::format,
           "What the files hold: raw or llm.c's tokens of 16 or 32 bits, or text to tokenise, also "
           "compressed (gzip, xz, Zstandard; files "
           "named `*.jsonl` or `*.json`: examples, `{\"prompt\": …, \"completion\": …}` or chats, "
           "`{\"messages\": […]}`; docs/fine_tuning.md). "
           "`auto`: text where `tokenizer` is named and no file ends in `.bin`, else tokens, by "
           "their header or the vocabulary.");
  data.Add("tokenizer", &D::tokenizer,
           "For text and for generating: `byte`, a Hugging Face `tokenizer.json`, BERT's "
           "`vocab.txt`, or a folder that holds one of them or GPT-2's `encoder.json` and "
           "`vocab.bpe` (docs/text.md).");
  data.Add("eval_fraction", &D::eval_fraction,
           "Part of the training text that is held out for evaluation.")
      .AtLeast(0)
      .Below(1);
  data.Add("document_separator", &D::document_separator,
           "A line that parts documents in text files (`%` in fortunes); empty: a file is one "
           "document.");
  data.Add("packing", &D::packing,
           "How examples (`*.jsonl`) fill rows of `model.sequence` tokens. `concatenate`: one "
           "after the other, cut into windows, so that they attend to one another; `best_fit`: "
           "whole ones by best-fit decreasing; `none`: one a row. The latter two pad rows, and "
           "keep examples apart (docs/fine_tuning.md).")
      .Derived(
          "`best_fit`; `concatenate` of files of text, and where the model cannot keep "
          "examples apart");
  data.Add("too_long", &D::too_long,
           "What becomes of examples that are longer than a row, with `packing` of `best_fit` or "
           "`none`: their first `model.sequence` tokens are kept, they are left out, or they are "
           "split into pieces of that length.");
  data.Add("documents", &D::documents,
           "`apart`: documents of text that share a row do not attend to one another, and their "
           "positions begin at 0; they end with the end-of-text token of `tokenizer`, also in "
           "token files.");
  data.Add(
      "chat_template", &D::chat_template,
      "How chats become text: a file in Jinja, a folder with a template, or `chatml`; empty: the "
      "tokenizer's own, `chat_template.jinja` or `chat_template` of its `tokenizer_config.json` "
      "(docs/fine_tuning.md#chats).");
  data.Add("loss_on", &D::loss_on,
           "What of examples carries loss: the turns of the assistant, or completions; or `all` of "
           "them.");
  data.Add("begin", &D::begin,
           "`auto`: documents, examples and prompts begin with the token that transformers puts "
           "before a text with this tokenizer (Gemma, Llama 3, Mistral; of token files: as `data "
           "tokenize` made them); `none`: with their own first token. Chats begin as their "
           "template says (docs/text.md#the-beginning-of-a-text).")
      .Derived("`auto`; `none` where a run or a token file from before this key continues");
  data.Add("end", &D::end,
           "The token that ends documents and completions, and chats whose template writes no end, "
           "as in `</s>`; empty: the tokenizer's own.");
  data.Add("unreadable", &D::unreadable,
           "What an example, image or volume that cannot be read does: `error` ends the run and "
           "names it (of examples the first ten), with `skip` it is left out, and the run says how "
           "many; the next image takes its place.");
  for (size_t i = first; i < keys.size(); ++i) {
    if (keys[i].path != "data.seed") keys[i].owners = {"tokens"};
  }
  for (Key& key : OwnersKeys("data")) {
    const auto known = std::find_if(keys.begin() + static_cast<int64_t>(first), keys.end(),
                                    [&](const Key& one) { return one.path == key.path; });
    if (known == keys.end()) {
      keys.push_back(std::move(key));
    } else {
      known->owners.insert(known->owners.end(), key.owners.begin(), key.owners.end());
    }
  }
}

void TrainKeys(std::vector<Key>& keys) {
  using T = TrainConfig;
  SectionKeys<T> train(keys, "train", &RunConfig::train);
  train.Add("steps", &T::steps, "Updates to make.")
      .Between(1, kSteps)
      .Derived("1000; with `epochs`, what they take");
  train
      .Add("epochs", &T::epochs,
           "How often to read all samples, in place of `steps`: those follow from the data and the "
           "global batch, rounded up (docs/recipes.md); 0: `steps` says it.")
      .Between(0, kEpochs);
  train
      .Add("stop_after", &T::stop_after,
           "End after this number of steps, as if the rest were to follow: the learning rate is "
           "that of the complete run; 0: make all.")
      .Between(0, kSteps);
  train
      .Add("micro_batch", &T::micro_batch,
           "Sequences per micro-step on each data rank; `auto`: what is fastest within "
           "`memory.budget`, the global batch staying what it is.")
      .As(Type::kAutoOrInt)
      .Between(1, kMillions);
  // In the struct, 0 means auto.
  keys.back().get = [](const RunConfig& config) {
    return config.train.micro_batch == 0 ? Value() : Value(config.train.micro_batch);
  };
  keys.back().set = [](RunConfig& config, const Value& value) {
    const auto* number = std::get_if<int64_t>(&value);
    config.train.micro_batch = number == nullptr ? 0 : *number;
  };
  train.Add("accumulate", &T::accumulate, "Micro-steps whose gradients make one update.")
      .Between(1, kMillions)
      .Derived("1; with a global batch, what makes it up");
  train.Add("blocks_first", &T::blocks_first,
            "With several micro-steps: one program holds all of them, and all go through the first "
            "block, then all through the second, and back likewise. All numbers are the same. The "
            "gradients of a block are then complete while no others exist, so that "
            "`optimizer.in_backward` frees them, and activations of all micro-steps exist "
            "instead (docs/parameter_memory.md). No effect where the head is the embedding (tied). "
            "`auto`: if "
            "that is fastest within the budget.");
  train
      .Add("global_batch", &T::global_batch,
           "Sequences per update over all data ranks; `accumulate` follows, within its own limits.")
      .Between(1, kSteps);
  train.Add("global_batch_tokens", &T::global_batch_tokens, "The same in tokens.").Between(1, 1e15);
  train.Add("seed", &T::seed, "Seed of dropout, and what `model.seed` and `data.seed` follow.")
      .Between(0, kSeeds);
  train.Add("eval_every", &T::eval_every, "Steps between evaluations; 0: none.")
      .Between(0, kSteps)
      .Derived("250; 0 without held-out data");
  train
      .Add(
          "eval_every_epochs", &T::eval_every_epochs,
          "Epochs between evaluations, in place of `eval_every`; 1: once in an epoch, a part of 1: "
          "more often; 0: `eval_every` says it.")
      .Between(0, kEpochs);
  train
      .Add("eval_sequences", &T::eval_sequences,
           "Held-out sequences per evaluation, the same ones whatever the micro-batch and the "
           "number "
           "of ranks; 0: all held-out data.")
      .Between(0, kSteps);
  train.Add("log_every", &T::log_every, "Steps between progress lines; 0: none.")
      .Between(0, kSteps);
  train.Add("sample_every", &T::sample_every, "Steps between text samples (see `sample`); 0: none.")
      .Between(0, kSteps);
  train
      .Add("early_stop", &T::early_stop,
           "Stop after this number of evaluations without improvement; 0: never.")
      .Between(0, kSteps);
  train.Add("monitor", &T::monitor,
            "The metric of evaluations that `save.best` and `early_stop` look at: `loss`, or one "
            "that the model declares; of averaged weights `ema_loss` and so on.");
  train.Add("monitor_mode", &T::monitor_mode,
            "Which way it improves; `auto`: as the model declares, of a loss `min`.");
  train.Add(
      "freeze", &T::freeze,
      "Parameters that are not trained, as patterns of their names (`embed.*`, `block.?.*`) or of "
      "those in checkpoints (`model.layers.0.*`): they have no gradients and no optimizer state.");
  train.Add("threads", &T::threads, "CPU threads; 0: one per core.").Between(0, 4096);
}

void TechniqueKeys(std::vector<Key>& keys) {
  using A = AmpConfig;
  SectionKeys<A> amp(keys, "amp", &RunConfig::amp);
  const std::vector<std::string> low = {"bf16", "fp16"}, dynamic = {"auto", "dynamic"},
                                 scaled = {"auto", "static", "dynamic"};
  amp.Add("dtype", &A::dtype,
          "Type of activations and matrix products; `tf32`: float32, products on a GPU's matrix "
          "units with operands rounded to TF32.");
  amp.Add("master_weights", &A::master_weights,
          "float32 copies of the low-precision weights, which updates change; without them (bf16) "
          "updates round stochastically.")
      .When("amp.dtype", low);
  amp.Add(
      "grad_dtype", &A::grad_dtype,
      "Type of the gradients of matrices, as they are made, carried over micro-steps and summed "
      "over ranks: float32, or bf16, half as large; sums over micro-steps then round "
      "stochastically. Those of vectors, norms and updates stay in float32.");
  amp.Add("low_ops", &A::low_ops, "Op kinds that work in `dtype` beyond those of the policy table.")
      .When("amp.dtype", low);
  amp.Add("fp32_ops", &A::fp32_ops, "Op kinds that stay in float32 whatever the policy table says.")
      .When("amp.dtype", {"tf32", "bf16", "fp16"});
  amp.Add("fuse_gelu", &A::fuse_gelu,
          "On a GPU, multiply by GELU's derivative (tanh form) in the product before it; one "
          "rounding fewer.")
      .When("amp.dtype", low);
  amp.Add("loss_scale", &A::loss_scale,
          "Loss scaling as PyTorch's GradScaler does it; `static`: the scale stays `init_scale`; "
          "`auto`: dynamic with fp16, otherwise none.");
  amp.Add("init_scale", &A::init_scale, "First loss scale.")
      .Between(0x1p-24, 0x1p60)
      .When("amp.loss_scale", scaled);
  amp.Add("growth_factor", &A::growth_factor, "Factor by which the scale grows.")
      .Between(1, 1024)
      .When("amp.loss_scale", dynamic);
  amp.Add("backoff_factor", &A::backoff_factor, "Factor by which it shrinks on an overflow.")
      .Above(0)
      .Below(1)
      .When("amp.loss_scale", dynamic);
  amp.Add("growth_interval", &A::growth_interval, "Good steps in a row before it grows.")
      .Between(1, kSteps)
      .When("amp.loss_scale", dynamic);
  amp.Add("min_scale", &A::min_scale, "The scale never falls below this.")
      .Between(0x1p-24, 0x1p60)
      .When("amp.loss_scale", dynamic);
  amp.Add("max_skips", &A::max_skips, "Skipped steps in a row that end the run with an error.")
      .Between(1, kSteps)
      .When("amp.loss_scale", scaled);
  const std::vector<std::string> codes = {"current", "delayed"}, delayed = {"delayed"};
  amp.Add(
      "fp8.recipe", &A::fp8_recipe,
      "`current`: linear layers in the model's blocks multiply 8-bit codes in training, forward "
      "and backward, each tensor scaled by its largest value at that moment. `delayed`: "
      "activations "
      "and gradients by their largest values in the steps before, so that what makes them can "
      "write "
      "codes at once. For `dtype` `bf16` or `fp16` (docs/fp8.md).");
  amp.Add("fp8.window", &A::fp8_window, "The number of steps before, of which the largest counts.")
      .Between(1, 65'536)
      .When("amp.fp8.recipe", delayed);
  amp.Add("fp8.margin", &A::fp8_margin,
          "Factor on the largest value of these steps, before scales are made of it: what is "
          "larger becomes the largest code.")
      .Between(0.5, 1024)
      .Derived("1; 2 with adapters")
      .When("amp.fp8.recipe", delayed);
  amp.Add("fp8.gradients", &A::fp8_gradients,
          "Codes of the gradients of these layers' results: `e4m3` is the more precise, `e5m2` has "
          "the wider range. Activations and weights are `e4m3`.")
      .When("amp.fp8.recipe", codes);
  amp.Add("fp8.skip", &A::fp8_skip,
          "Linear layers that stay in 16 bits, by the names of their weights: "
          "`[\"block.0.*\", \"*.mlp.*\"]`.")
      .When("amp.fp8.recipe", codes);
  amp.Add("fp8.skip_ends", &A::fp8_skip_ends,
          "The number of blocks at each end of the model that stay in 16 bits.")
      .Between(0, 10'000)
      .When("amp.fp8.recipe", codes);
  amp.Add("fp8.pre_activations", &A::fp8_pre_activations,
          "What such a layer makes for an activation function (GPT-2's `fc`, Llama's `gate_up`) is "
          "kept for the backward pass in 8 bits, and both passes compute with these: less memory, "
          "also with `checkpointing.policy: selective`.")
      .When("amp.fp8.recipe", codes);
  amp.Add("fp8.counts", &A::fp8_counts,
          "Metrics of each step: the shares of values that are beyond the largest code "
          "(`fp8_saturated`), that become 0 (`fp8_zeroed`) and that are infinite or NaN "
          "(`fp8_overflowed`). Reads them once more.")
      .When("amp.fp8.recipe", codes);

  using C = CheckpointingConfig;
  SectionKeys<C> checkpointing(keys, "checkpointing", &RunConfig::checkpointing);
  checkpointing.Add("policy", &C::policy,
                    "Which results of the forward pass are kept for the backward pass: all "
                    "(`none`), the inputs of all blocks (`block`) or of one in N (`every`; N is "
                    "`checkpointing.every`), all but "
                    "those named in `recompute` (`selective`), or what is fastest within "
                    "`memory.budget` (`auto`).");
  checkpointing.Add("every", &C::every, "Blocks between kept block inputs.")
      .Between(1, kThousands)
      .When("checkpointing.policy", {"every"});
  checkpointing
      .Add("recompute", &C::recompute,
           "What is computed again: names of tensors (`*.mlp.fc`), op kinds (`gelu`), or the "
           "presets `norms`, `activations` and `attention`.")
      .When("checkpointing.policy", {"selective"});
  checkpointing.Add("save", &C::save, "Exceptions from `recompute`, written alike.")
      .When("checkpointing.policy", {"selective"});
  checkpointing.Add("offload", &C::offload,
                    "Of what is kept, these wait in host memory; with `auto`, these may.");

  using Memory = MemoryConfig;
  SectionKeys<Memory> memory(keys, "memory", &RunConfig::memory);
  const std::vector<std::string> caching = {"caching"};
  memory.Add(
      "budget", &Memory::budget,
      "Most memory the run may use: `24GiB`, `90%` of the device's, `free - 1GiB`; on the "
      "CPU, of the arenas, on a GPU, of the whole process there. A plan beyond it is refused "
      "before anything is allocated.");
  memory.Add(
      "host_budget", &Memory::host_budget,
      "Most host memory of each rank for what is offloaded or placed there, and for batches "
      "that `data.workers` prepare for a GPU. What all ranks of a host take together must be "
      "there, too. Also the most that `plimsoll predict` takes of the host for a volume.");
  memory.Add(
      "weights", &Memory::weights,
      "Where weights live. On the host, each comes to the device for as long as a block uses "
      "it, and goes back after its update; numbers are the same (docs/parameter_memory.md). Data "
      "ranks then divide weights with any `parallel.zero` from 1 on. `auto`: on the host if the "
      "budget asks for it.");
  memory.Add("gradients", &Memory::gradients,
             "Where gradients live that micro-steps carry. Those of a single micro-step are "
             "temporaries of the device. `auto`: on the host if the budget asks for it.");
  memory
      .Add("host_blocks", &Memory::host_blocks,
           "How many blocks of the model, evenly spaced, have on the host what `memory.weights`, "
           "`memory.gradients` and `optimizer.place` send there; all else stays on the device. "
           "`auto`: all blocks and what is outside of them, or, where these keys are `auto`, as "
           "much as the budget asks for.")
      .As(Type::kAutoOrInt)
      .Between(1, kThousands);
  memory
      .Add("device", &Memory::device,
           "The GPU that `plimsoll plan` plans for, by a name that its `--device` takes: `h200`, "
           "`4090`. Training takes the GPU that is there.")
      .Derived("this machine's");
  memory.Add("allocator", &Memory::allocator,
             "`planned`: every tensor has its place before the first step. `caching`: as "
             "frameworks do, to compare with.");
  memory
      .Add("empty_cache_every", &Memory::empty_cache_every,
           "Steps between returning the cache to the system; 0: never.")
      .Between(0, kSteps)
      .When("memory.allocator", caching);
  memory.Add("preallocate", &Memory::preallocate, "Take one large segment at the start.")
      .When("memory.allocator", caching);
  memory.Add("calibrate", &Memory::calibrate,
             "Time the ops on this device, once, for predictions, and the data for `plan`; "
             "otherwise built-in "
             "rates.");
  memory
      .Add("calibration", &Memory::calibration,
           "Folder with a calibration and the profiles of GPUs, such as a copy of "
           "`~/.cache/plimsoll`: taken as they are, nothing is timed or kept.")
      .Derived("`~/.cache/plimsoll`, which learns");
  memory
      .Add("summary", &Memory::summary,
           "What is printed at the end: five lines, or also what memory was used for.")
      .Also("false", "none")
      .Also("true", "full");
  memory
      .Add("summary_order", &Memory::summary_order, "The tables of a full one by bytes or by time.")
      .When("memory.summary", {"full"});

  SectionKeys<ParallelConfig> parallel(keys, "parallel", &RunConfig::parallel);
  parallel.Add("data", &ParallelConfig::data, "Data-parallel ranks.")
      .As(Type::kAutoOrInt)
      .Between(1, kThousands);
  parallel
      .Add("tensor", &ParallelConfig::tensor,
           "Tensor-parallel ranks: each has a part of the heads, the feed-forward layers and the "
           "vocabulary. `auto`, as `data` by default: what is fastest within `memory.budget`, the "
           "global batch staying what it is (docs/parallelism.md).")
      .As(Type::kAutoOrInt)
      .Between(1, kThousands);
  parallel
      .Add("pipeline", &ParallelConfig::pipeline,
           "Pipeline stages: each has some of the model's blocks, and `train.accumulate` "
           "micro-batches go through them (docs/pipeline_stages.md).")
      .Between(1, kThousands);
  parallel
      .Add("stages", &ParallelConfig::stages,
           "The number of blocks of each stage, as `[12, 12, 13, 11]`.")
      .Derived("stages that take nearly as long");
  parallel
      .Add(
          "zero", &ParallelConfig::zero,
          "ZeRO stage: data ranks divide optimizer state (1), carried gradients (2) and "
          "weights (3) among themselves; weights on the host (`memory.weights`) from 1 on. Without "
          "effect on one data rank. `auto`: what is fastest within `memory.budget`.")
      .As(Type::kAutoOrInt)
      .Between(0, 3);
  parallel.Add("reshard_after_forward", &ParallelConfig::reshard_after_forward,
               "Where data ranks divide weights: the whole weights of a layer go after its forward "
               "pass and are gathered again for its backward pass; with `checkpointing.policy: "
               "auto`, where the budget asks for it. `false`: they are kept.");
  parallel.Add("sequence", &ParallelConfig::sequence,
               "Sequence parallelism: tensor-parallel ranks also share the tokens of what lies "
               "between split layers. Without effect on one of them. `auto`: if that is faster "
               "within `memory.budget`.");
  parallel.Add("sync_norm", &ParallelConfig::sync_norm,
               "Batch norms take their statistics from the samples of all data ranks, so that "
               "ranks compute what one would (docs/batch_norm.md).");
  parallel
      .Add("bucket_cap_mb", &ParallelConfig::bucket_cap_mb,
           "Gradients are summed in buckets of at least this number of MiB; auto: a thirty-second "
           "of all gradients, at least 25 and at most 200.")
      .As(Type::kAutoOrInt)
      .Between(1, kMillions);
  parallel
      .Add("nccl_max_ctas", &ParallelConfig::nccl_max_ctas,
           "Channels that NCCL may use for a call, each a block with buffers of its own; 0: NCCL's "
           "own choice; auto: the fewest that cost less than a hundredth of the step.")
      .As(Type::kAutoOrInt)
      .Between(0, 64);
  parallel
      .Add("timeout", &ParallelConfig::timeout,
           "Seconds without progress, before the first step too, after which a rank ends all: a "
           "collective whose partner hangs waits for ever.")
      .Above(0);
}

void RunKeys(std::vector<Key>& keys) {
  Key device;
  device.path = "device";
  device.type = Type::kEnum;
  device.doc =
      "Where to run: on the CPU, on an NVIDIA GPU, or (`auto`) on a GPU if this build can use one.";
  device.choices = EnumNames<Device>();
  device.get = [](const RunConfig& config) { return Read(config.device); };
  device.set = [](RunConfig& config, const Value& value) { Write(config.device, value); };
  keys.push_back(std::move(device));

  SectionKeys<RunDirConfig> run(keys, "run", &RunConfig::run);
  run.Add("dir", &RunDirConfig::dir, "Run directory: resolved configuration, plan, metrics.")
      .Derived("`runs/` and the name of the file");
  run.Add("overwrite", &RunDirConfig::overwrite,
          "Replace what an earlier run left in the directory.");
  run.Add("name", &RunDirConfig::name,
          "What the run is called in lists and on its page; like `tags` and `notes` it changes "
          "nothing else.");
  run.Add("tags", &RunDirConfig::tags, "Words to find it by.");
  run.Add("notes", &RunDirConfig::notes, "What it is for.");

  SectionKeys<LogConfig> log(keys, "log", &RunConfig::log);
  log.Add("csv", &LogConfig::csv, "Write `metrics.csv`, the rows of `metrics.jsonl` as a table.");
  log.Add("tensorboard", &LogConfig::tensorboard, "Write an event file for TensorBoard.");
  log.Add("report", &LogConfig::report, "Write `report.html`, refreshed while training.");
  log.Add("mlflow", &LogConfig::mlflow,
          "Folder of a run for MLflow, as files; `true`: `MLFLOW_TRACKING_URI`, or `mlruns`.")
      .As(Type::kFolderOrBool);

  SectionKeys<SaveConfig> save(keys, "save", &RunConfig::save);
  save.Add("every", &SaveConfig::every, "Steps between snapshots; 0: none.").Between(0, kSteps);
  save.Add("keep", &SaveConfig::keep, "How many of the newest snapshots stay; 0: all.")
      .Between(0, kSteps);
  save.Add("keep_every", &SaveConfig::keep_every,
           "Snapshots of steps divisible by this stay as well; 0: no more.")
      .Between(0, kSteps);
  save.Add(
      "best", &SaveConfig::best,
      "Also save after an evaluation that is the best so far; its snapshot stays, and the model at "
      "the end has its weights.");
  save.Add("on_exit", &SaveConfig::on_exit,
           "When SIGTERM or SIGINT comes: finish the step, save, and end with exit code 4. With "
           "`save.every`, also save after the last step.");
  save.Add(
      "on_error", &SaveConfig::on_error,
      "When a snapshot cannot be written: warn and go on, or stop. Those that are there stay.");
  save.Add("signal", &SaveConfig::signal,
           "A signal that is treated like SIGTERM: what a scheduler sends before it takes the "
           "machine away.");
  save.Add(
      "async", &SaveConfig::async,
      "Write snapshots while training continues, from a copy of the state. The plan has memory "
      "for it: of the host when training on a GPU.");
  save.Add("model", &SaveConfig::model, "Write the trained weights at the end, to `model/`.");

  using Divergence = DivergenceConfig;
  SectionKeys<Divergence> divergence(keys, "divergence", &RunConfig::divergence);
  divergence.Add("action", &Divergence::action,
                 "When a step's loss or gradients are not finite, or its loss is a spike: end the "
                 "run with an error (`stop`), leave the step's update out (`skip`), or go back to "
                 "the last good snapshot, with a lower learning rate and other data (`rollback`).");
  divergence
      .Add(
          "spike", &Divergence::spike,
          "A loss is a spike if it is above the mean of the `window` losses before it by more than "
          "this number of standard deviations; 0: none is.")
      .Between(0, kThousands);
  divergence
      .Add("window", &Divergence::window,
           "Losses that mean and deviation are taken of; before there are as many, there are no "
           "spikes.")
      .Between(2, kThousands);
  divergence
      .Add("max_skips", &Divergence::max_skips,
           "Steps skipped in a row that end the run with an error.")
      .Between(1, kSteps)
      .When("divergence.action", {"skip"});
  divergence
      .Add("lr_factor", &Divergence::lr_factor,
           "What each rollback multiplies the learning rate by, for the rest of the run.")
      .Above(0)
      .Between(0, 1)
      .When("divergence.action", {"rollback"});
  divergence
      .Add("max_rollbacks", &Divergence::max_rollbacks,
           "Rollbacks of a run; one more divergence ends it with an error.")
      .Between(1, kThousands)
      .When("divergence.action", {"rollback"});

  using S = SampleConfig;
  SectionKeys<S> sample(keys, "sample", &RunConfig::sample);
  sample.Add("prompt", &S::prompt, "Text that samples continue.");
  sample.Add("tokens", &S::tokens, "Tokens to generate.").Between(1, kMillions);
  sample.Add("temperature", &S::temperature, "Divides the logits; 0: always the likeliest token.")
      .Between(0, 100);
  sample.Add("top_k", &S::top_k, "Draw from the k likeliest tokens; 0: from all.")
      .Between(0, kMillions);
  sample
      .Add("top_p", &S::top_p,
           "Draw from the fewest likeliest tokens that together have this probability, after "
           "`temperature` and `top_k`; 1: from all.")
      .Above(0)
      .Between(0, 1);
  sample.Add("stop", &S::stop,
             "Texts that end a sample where one of them would begin; they aren't part of it.");
  sample.Add("seed", &S::seed, "Seed of the draws.").Between(0, kSeeds);
  sample.Add("count", &S::count, "Samples at a time.").Between(1, kThousands);

  using D = DebugConfig;
  SectionKeys<D> debug(keys, "debug", &RunConfig::debug);
  debug
      .Add("dump_programs", &D::dump_programs,
           "Folder for the program after each pass; `true`: `programs/` in the run directory.")
      .As(Type::kFolderOrBool);
  debug.Add("stop_after", &D::stop_after,
            "A pass (docs/architecture.md): programs are written as they are after it, to the "
            "folder of `dump_programs` or `programs/` in the run directory, and nothing is "
            "trained.");
  debug.Add("without", &D::without,
            "Passes to leave out, of those that change no number, so that a study can tell what "
            "one is worth.");
  debug.Add("verify_drafts", &D::verify_drafts,
            "Verify every program that the search for a plan tries, after every pass, as those "
            "that run always are. Slow.");
  debug.Add("poison", &D::poison, "Fill every tensor with NaN when it dies.");
  debug.Add("find_nan", &D::find_nan,
            "Look for NaN and infinity after every op: the run ends with the name of the first "
            "op and tensor that has one. Slow.");
  debug.Add("node_by_node", &D::node_by_node,
            "On a GPU: launch and await every op by itself instead of replaying a recorded step, "
            "so that an error names its op. The same bits, slower.");
  debug.Add("check_arena", &D::check_arena,
            "Measure by canaries the arena bytes that are really used.");
  debug.Add("host_apart", &D::host_apart,
            "On a CPU: plan as if the host's memory were another one, as with a GPU, to try a "
            "GPU's choices of places.");
  debug.Add("act_as", &D::act_as,
            "On a GPU: choose kernels, and their memory, as on GPUs of this compute capability "
            "(`8.6`: an RTX 3090), to try what they would run. The GPU must run the build's code "
            "all the same, and have what these kernels take: only a Hopper acts as `9.0`.");
}

}  // namespace

const std::vector<Key>& Schema() {
  static const std::vector<Key> schema = [] {
    std::vector<Key> keys;
    ModelKeys(keys);
    DataKeys(keys);
    TrainKeys(keys);
    LearningKeys(keys);
    TechniqueKeys(keys);
    RunKeys(keys);
    const RunConfig defaults;
    for (Key& key : keys) key.default_value = key.get(defaults);
    return keys;
  }();
  return schema;
}

const std::vector<SectionInfo>& Sections() {
  static const std::vector<SectionInfo> sections = {
      {"model", "What is trained: a shape, or `init_from` a checkpoint (docs/models.md)."},
      {"data", "What the model is trained on (docs/data.md)."},
      {"train", "How long, in what batches, and what is reported."},
      {"preference", "Learning from pairs of answers (docs/preferences.md)."},
      {"lora", "Low-rank adapters that are trained in place of the model (docs/fine_tuning.md)."},
      {"optimizer", "How gradients become updates."},
      {"schedule", "The learning rate over the steps."},
      {"objectives",
       "Of a model with several losses: what of `optimizer` and `schedule` is one objective's own, "
       "as in `objectives: {critic: {optimizer: {lr: 4e-4}}}`. The rest is the run's "
       "(docs/extending/several_losses.md)."},
      {"amp", "Mixed precision (docs/mixed_precision.md)."},
      {"checkpointing",
       "Which activations are saved, recomputed or offloaded (docs/checkpointing.md)."},
      {"memory",
       "The memory budget (docs/budget.md), and where weights and gradients live "
       "(docs/parameter_memory.md)."},
      {"parallel",
       "How the work is divided among ranks (docs/parallelism.md). `parallel: auto` means "
       "`auto` for all keys that may have it: the mesh and ZeRO stage that are the fastest within "
       "`memory.budget`.",
       /*may_be_auto=*/true},
      {"run", "Where the run's files go (docs/reports.md), and what it is called."},
      {"log", "Metrics for people and other programs, in the run directory (docs/reports.md)."},
      {"save", "Snapshots of the training state (docs/snapshots.md)."},
      {"divergence", "What happens when training diverges (docs/divergence.md)."},
      {"sample", "Text generated while training and by `plimsoll generate` (docs/inference.md)."},
      {"debug", "Checks and dumps."},
  };
  return sections;
}

}  // namespace plimsoll::config
