// RunConfig: all settings of one YAML run file, as plain structs.
//
// Field defaults here are the defaults of the keys; schema_keys.cc ties each field to its dotted
// key, range and doc string. Fields marked "derived" are filled by Load when the file leaves them
// out, so that readers of a loaded config find the final value. Lengths are in tokens, sizes in
// bytes, rates as plain numbers; "0: off" is noted where it applies.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/settings.h"

namespace plimsoll::config {

enum class Order { kShuffled, kConsecutive };
enum class DataFormat { kAuto, kUint16, kUint32, kText };
enum class Packing { kConcatenate, kBestFit, kNone };
enum class TooLong { kTruncate, kDrop, kSplit };
enum class Documents { kJoined, kApart };
enum class LossOn { kAssistant, kAll };
enum class BeginToken { kAuto, kNone };
enum class Unreadable { kError, kSkip };
enum class PreferenceLoss { kNone, kDpo, kIpo };
enum class PreferenceDropout { kOff, kModel };
enum class OptimizerName { kAdamW, kSgd, kMuon };
enum class AdjustLr { kOriginal, kMatchRmsAdamW };
enum class ScheduleName { kConstant, kLinear, kCosine, kWsd, kMultistep };
enum class AttentionKind { kBlockwise, kStored };
enum class Dtype { kFp32, kTf32, kBf16, kFp16 };
enum class LossScale { kAuto, kNone, kStatic, kDynamic };
enum class StateDtype { kFp32, kBf16, kInt8 };
enum class GradDtype { kFp32, kBf16 };
enum class Fp8Recipe { kNone, kCurrent, kDelayed };
enum class Fp8Gradients { kE5m2, kE4m3 };
enum class ClipBy { kStep, kParameter, kLastStep };
enum class PlaceOrAuto { kDevice, kHost, kAuto };
enum class OnOrAuto { kOff, kOn, kAuto };
enum class CheckpointPolicy { kNone, kBlock, kEvery, kSelective, kAuto };
enum class Allocator { kPlanned, kCaching };
enum class Summary { kNone, kShort, kFull };
enum class SummaryOrder { kBytes, kTime };
enum class Device { kAuto, kCpu, kCuda };
enum class DivergenceAction { kStop, kSkip, kRollback };
enum class OnSaveError { kContinue, kStop };
enum class MonitorMode { kAuto, kMin, kMax };
enum class StopSignal { kNone, kHup, kUsr1, kUsr2 };

// The spelling of the enumerators in a file, in their order ("adamw", "sgd").
template <typename E>
const std::vector<std::string>& EnumNames();
template <>
const std::vector<std::string>& EnumNames<Order>();
template <>
const std::vector<std::string>& EnumNames<DataFormat>();
template <>
const std::vector<std::string>& EnumNames<Packing>();
template <>
const std::vector<std::string>& EnumNames<TooLong>();
template <>
const std::vector<std::string>& EnumNames<Documents>();
template <>
const std::vector<std::string>& EnumNames<LossOn>();
template <>
const std::vector<std::string>& EnumNames<BeginToken>();
template <>
const std::vector<std::string>& EnumNames<Unreadable>();
template <>
const std::vector<std::string>& EnumNames<PreferenceLoss>();
template <>
const std::vector<std::string>& EnumNames<PreferenceDropout>();
template <>
const std::vector<std::string>& EnumNames<OptimizerName>();
template <>
const std::vector<std::string>& EnumNames<AdjustLr>();
template <>
const std::vector<std::string>& EnumNames<ScheduleName>();
template <>
const std::vector<std::string>& EnumNames<AttentionKind>();
template <>
const std::vector<std::string>& EnumNames<Dtype>();
template <>
const std::vector<std::string>& EnumNames<LossScale>();
template <>
const std::vector<std::string>& EnumNames<StateDtype>();
template <>
const std::vector<std::string>& EnumNames<GradDtype>();
template <>
const std::vector<std::string>& EnumNames<Fp8Recipe>();
template <>
const std::vector<std::string>& EnumNames<Fp8Gradients>();
template <>
const std::vector<std::string>& EnumNames<PlaceOrAuto>();
template <>
const std::vector<std::string>& EnumNames<OnOrAuto>();
template <>
const std::vector<std::string>& EnumNames<ClipBy>();
template <>
const std::vector<std::string>& EnumNames<Summary>();
template <>
const std::vector<std::string>& EnumNames<SummaryOrder>();
template <>
const std::vector<std::string>& EnumNames<CheckpointPolicy>();
template <>
const std::vector<std::string>& EnumNames<Allocator>();
template <>
const std::vector<std::string>& EnumNames<Device>();
template <>
const std::vector<std::string>& EnumNames<DivergenceAction>();
template <>
const std::vector<std::string>& EnumNames<OnSaveError>();
template <>
const std::vector<std::string>& EnumNames<MonitorMode>();
template <>
const std::vector<std::string>& EnumNames<StopSignal>();

template <typename E>
const std::string& ToString(E value) {
  return EnumNames<E>()[static_cast<size_t>(value)];
}

// The number of ranks that parallel.data: auto uses.
struct RankCount {
  int64_t count = 1;
  bool started = false;  // whether the file's mesh must have `count` ranks
  // The option that asks for `count` ranks without starting any; empty: none.
  const char* option = "";

  RankCount(int64_t assumed) : count(assumed) {}
  static RankCount AskedBy(const char* option, int64_t ranks) {
    RankCount count(ranks);
    count.started = true;
    count.option = option;
    return count;
  }
  // Ranks that mpirun has started. One process alone may plan for any number of ranks.
  static RankCount Started(int64_t ranks) {
    RankCount count(ranks);
    count.started = ranks > 1;
    return count;
  }
};

// A size that may depend on the device: "24GiB" (bytes), "90%" (of its total memory) or "free -
// 1GiB" (the free memory at start-up, minus bytes).
struct MemorySize {
  enum class Base { kAbsolute, kTotal, kFree };
  Base base = Base::kAbsolute;
  double fraction = 1.0;  // the share of total memory; only for kTotal
  int64_t bytes = 0;      // the size (kAbsolute) or what is subtracted (kFree)

  bool operator==(const MemorySize&) const = default;
};

// Parameters whose name matches `pattern` (a glob: * and ?) take this weight decay.
struct WeightDecayGroup {
  std::string pattern;
  double weight_decay = 0.0;

  bool operator==(const WeightDecayGroup&) const = default;
};

// With init_from, the folder's config.json gives the model's keys. A file may set only those that
// Setting::with_loaded_weights allows.
struct ModelConfig {
  std::string init_from;            // Hugging Face folder; empty: random initial weights
  bool followed_init_from = false;  // whether the settings in init_from have been read
  std::string family;               // a name in models/family.h
  AttentionKind attention = AttentionKind::kBlockwise;
  int64_t seed = 1337;  // seed of initial weights; derived: train.seed
  Settings settings;    // the family's own keys, by name; complete after loading

  // Tokens per training sequence; 1 for models without sequences, 0 until init_from provides it.
  int64_t sequence() const {
    return settings.IntOr("sequence", init_from.empty() || followed_init_from ? 1 : 0);
  }

  bool operator==(const ModelConfig&) const = default;
};

// Training files, and the relative share of samples that come from them.
struct TrainSource {
  std::vector<std::string> files;  // paths or globs, relative to the working directory
  double weight = 1.0;

  bool operator==(const TrainSource&) const = default;
};

// All fields except source, seed and settings are for token data.
struct DataConfig {
  std::string source = "tokens";   // a name in data/source.h, or "tokens"
  Settings settings;               // the source's own keys, by name; complete after loading
  std::vector<TrainSource> train;  // a plain list of files: one source of weight 1
  std::vector<std::string> eval;
  std::vector<std::string> exclude;  // globs: file names excluded from train and eval
  bool synthetic = false;            // random tokens from `seed` instead of files
  Order order = Order::kShuffled;
  int64_t seed = 1337;  // seed of the data's order and of synthetic tokens; derived: train.seed
  DataFormat format = DataFormat::kAuto;
  std::string tokenizer;           // "byte", or a path; empty: the files already hold tokens
  double eval_fraction = 0.0;      // share of text sources held out for evaluation
  std::string document_separator;  // a line that separates documents in text files; empty: none
  // How rows are filled with examples; derived: kBestFit for files of examples.
  Packing packing = Packing::kConcatenate;
  // What happens to long examples, unless they are concatenated.
  TooLong too_long = TooLong::kTruncate;
  Documents documents = Documents::kJoined;  // whether documents in a window of text are joined
  std::string chat_template;            // a Jinja file, or "chatml"; empty: the tokenizer's own
  LossOn loss_on = LossOn::kAssistant;  // the parts of an example that carry loss
  // Whether texts and prompts begin with the tokens that the tokenizer's files ask for.
  BeginToken begin = BeginToken::kAuto;
  std::string end;  // the token that ends documents and examples; empty: the tokenizer's own
  Unreadable unreadable = Unreadable::kError;  // what an example that cannot be read does

  // The key that keeps the documents of a row separate; empty: none does.
  std::string KeyOfDocumentsApart() const {
    if (packing != Packing::kConcatenate) return "data.packing";
    return documents == Documents::kApart ? "data.documents" : "";
  }

  bool operator==(const DataConfig&) const = default;
};

struct TrainConfig {
  int64_t steps = 1000;     // derived if `epochs` is given; then 0 until the data is counted
  double epochs = 0;        // 0: `steps` is given
  int64_t stop_after = 0;   // number of steps; 0: all steps
  int64_t micro_batch = 8;  // sequences per micro-step and data rank; 0: auto, the solver chooses
  int64_t accumulate = 1;   // micro-steps per update; derived if a global batch is given
  // All micro-steps run a block before any runs the next block.
  OnOrAuto blocks_first = OnOrAuto::kOff;
  std::optional<int64_t> global_batch;         // sequences per update on all ranks
  std::optional<int64_t> global_batch_tokens;  // tokens per update on all ranks
  // Seed of dropout; default of model.seed and data.seed.
  int64_t seed = 1337;
  // Steps between evaluations; 0: off; derived: 0 without held-out data.
  int64_t eval_every = 250;
  double eval_every_epochs = 0;  // 0: `eval_every` is given
  int64_t eval_sequences = 160;  // sequences per evaluation on all ranks; 0: all held-out sequences
  int64_t log_every = 10;
  int64_t sample_every = 0;      // steps between samples; 0: off
  int64_t early_stop = 0;        // most evaluations without improvement; 0: off
  std::string monitor = "loss";  // the metric that decides the best evaluation
  MonitorMode monitor_mode = MonitorMode::kAuto;
  int64_t threads = 0;              // number of threads; 0: all cores
  std::vector<std::string> freeze;  // name patterns of parameters that are not trained
  // The number of steps per epoch, not rounded. 0 if it is unknown: no key counts in epochs, or the
  // data has not been counted yet (FollowEpochs).
  double steps_per_epoch = 0;

  // Sets the batch by its micro-steps alone; clears global batches.
  void SetMicroSteps(int64_t sequences, int64_t count) {
    micro_batch = sequences;
    accumulate = count;
    global_batch.reset();
    global_batch_tokens.reset();
  }

  // The number of steps that this run makes.
  int64_t StepsToMake() const { return stop_after > 0 && stop_after < steps ? stop_after : steps; }

  bool operator==(const TrainConfig&) const = default;
};

// Learning from pairs of answers.
struct PreferenceConfig {
  PreferenceLoss loss = PreferenceLoss::kNone;  // kNone: examples are not pairs
  double beta = 0.1;
  double label_smoothing = 0;  // for dpo
  double sft_weight = 0;
  // Whether training applies the dropout of the model and its adapters; the reference never does.
  PreferenceDropout dropout = PreferenceDropout::kOff;

  bool without_dropout() const { return asked() && dropout == PreferenceDropout::kOff; }
  bool asked() const { return loss != PreferenceLoss::kNone; }
  bool operator==(const PreferenceConfig&) const = default;
};

// Low-rank adapters. With init_from, keys that are not set come from its adapter_config.json.
struct LoraConfig {
  int64_t rank = 0;  // 0: no adapters
  double alpha = 16;
  std::vector<std::string> targets = {"all-linear"};
  double dropout = 0.0;
  bool rslora = false;
  // Modules that are trained in full and stored with the adapters. LoadRun adds newly initialized
  // modules, because no other file holds them.
  std::vector<std::string> modules_to_save;
  std::string init_from;  // a folder in PEFT's format; empty: A is random, B zero

  bool asked() const { return rank > 0 || !init_from.empty(); }
  bool operator==(const LoraConfig&) const = default;
};

// Weight decay applies to tensors of rank 2 and more, unless a group says otherwise (the first
// match wins).
struct OptimizerConfig {
  OptimizerName name = OptimizerName::kAdamW;
  double lr = 3e-4;
  // For adamw, and for parameters that muon updates with adamw.
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;                // epsilon of adamw
  double momentum = 0.9;            // momentum of sgd; derived for muon: 0.95
  bool nesterov = false;            // whether sgd uses Nesterov momentum; derived for muon: true
  int64_t newton_schulz_steps = 5;  // number of iterations in muon
  // Muon's adjustment of the learning rate to a matrix's shape.
  AdjustLr adjust_lr = AdjustLr::kMatchRmsAdamW;
  double weight_decay = 0.1;
  std::vector<WeightDecayGroup> weight_decay_groups;
  double layer_decay = 1;       // factor of the learning rate from layer to layer; 1: equal rates
  double clip_grad_norm = 1.0;  // largest norm of all gradients; 0: off
  ClipBy clip_by = ClipBy::kStep;
  OnOrAuto in_backward = OnOrAuto::kOff;  // update as soon as gradients are complete
  double ema = 0;                         // decay of averaged weights; 0: no averages
  bool ema_warmup = false;
  StateDtype state_dtype = StateDtype::kFp32;
  PlaceOrAuto place = PlaceOrAuto::kDevice;  // placement of moments and master weights

  bool operator==(const OptimizerConfig&) const = default;
};

struct ScheduleConfig {
  ScheduleName name = ScheduleName::kCosine;
  int64_t warmup = 0;           // steps; the rate rises linearly from 0
  double warmup_epochs = 0;     // 0: `warmup` is given
  double min_lr = 0.0;          // the final rate of linear, cosine and wsd
  double decay_fraction = 0.2;  // for wsd: share of the steps in which the rate decays
  int64_t decay_steps = 0;      // for wsd: number of decay steps; derived from decay_fraction
  // For multistep: the first steps with a smaller rate, ascending.
  std::vector<double> milestones;
  std::vector<double> milestone_epochs;  // for multistep: milestones in epochs
  double gamma = 0.1;                    // for multistep: factor of the rate at each milestone

  // The warm-up of a run of `steps` steps. If `warmup` is longer than the run, a tenth of the
  // steps.
  int64_t WarmUpWithin(int64_t steps) const { return warmup > steps ? (steps + 9) / 10 : warmup; }
  bool operator==(const ScheduleConfig&) const = default;
};

struct AmpConfig {
  Dtype dtype = Dtype::kFp32;
  LossScale loss_scale = LossScale::kAuto;
  bool master_weights = true;
  GradDtype grad_dtype = GradDtype::kFp32;  // type of matrices' gradients
  // Op kinds that compute in `dtype` in addition to the policy's.
  std::vector<std::string> low_ops;
  std::vector<std::string> fp32_ops;  // op kinds that compute in float32
  bool fuse_gelu = false;             // on a GPU: fuse GELU's gradient into the product before it
  double init_scale = 65536;          // initial loss scale, as in PyTorch's GradScaler
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;           // good steps in a row before the scale grows
  double min_scale = 1;                     // the smallest loss scale
  int64_t max_skips = 50;                   // the run ends after this many skipped steps in a row
  Fp8Recipe fp8_recipe = Fp8Recipe::kNone;  // how 8-bit linear layers find their scales
  int64_t fp8_window = 16;                  // number of steps whose largest values determine scales
  // Factor of the largest value before scales; derived: 2 with adapters.
  double fp8_margin = 1;
  Fp8Gradients fp8_gradients = Fp8Gradients::kE4m3;
  std::vector<std::string> fp8_skip;  // name patterns of weights whose layers stay in 16 bits
  int64_t fp8_skip_ends = 1;          // number of blocks at each end that stay in 16 bits
  bool fp8_pre_activations = false;   // keep inputs of activation functions as 8-bit codes
  bool fp8_counts = false;            // add metrics of values that 8-bit codes cannot represent

  bool operator==(const AmpConfig&) const = default;
};

struct CheckpointingConfig {
  CheckpointPolicy policy = CheckpointPolicy::kNone;
  int64_t every = 1;  // for policy every: number of blocks between kept block inputs
  // Lists of tensors, each by name, op kind or preset. `recompute` is for policy selective.
  std::vector<std::string> recompute = {"norms", "activations"};
  std::vector<std::string> save;     // exceptions from `recompute`
  std::vector<std::string> offload;  // kept activations that are offloaded to host memory

  bool operator==(const CheckpointingConfig&) const = default;
};

struct MemoryConfig {
  std::optional<MemorySize> budget;
  std::optional<MemorySize> host_budget;
  PlaceOrAuto weights = PlaceOrAuto::kDevice;
  // Placement of gradients carried between micro-steps.
  PlaceOrAuto gradients = PlaceOrAuto::kDevice;
  // The number of blocks whose parameters are placed on the host. nullopt is auto: the solver's
  // choice if it chooses the placement, otherwise all blocks and the parameters outside blocks.
  std::optional<int64_t> host_blocks;
  std::string device;  // the GPU that `plan` plans for; empty: this machine's GPU
  Allocator allocator = Allocator::kPlanned;
  int64_t empty_cache_every = 0;  // for the caching allocator: steps between calls; 0: never
  bool preallocate = false;       // for the caching allocator: take the budget at once
  bool calibrate = true;          // time the ops on this device; false: use built-in rates
  // Folder of a calibration to use unchanged; empty: the growing cache.
  std::string calibration;
  Summary summary = Summary::kShort;  // length of the memory summary at the run's end
  SummaryOrder summary_order = SummaryOrder::kBytes;

  bool operator==(const MemoryConfig&) const = default;
};

struct ParallelConfig {
  // Number of ranks; nullopt: auto, the ranks that tensor and pipeline leave.
  std::optional<int64_t> data;
  std::optional<int64_t> tensor = 1;  // number of ranks; nullopt: auto, the solver chooses
  int64_t pipeline = 1;               // number of stages
  std::vector<double> stages;         // number of blocks of each stage; empty: balanced
  std::optional<int64_t> zero = 0;    // ZeRO stage; nullopt: auto, the solver chooses
  bool reshard_after_forward = true;
  OnOrAuto sequence = OnOrAuto::kOff;
  bool sync_norm = false;
  std::optional<int64_t> bucket_cap_mb;  // size of a gradient bucket; nullopt: auto
  std::optional<int64_t> nccl_max_ctas;  // most CTAs of NCCL; nullopt: auto; 0: NCCL chooses
  double timeout = 600;                  // in seconds
  // The number of ranks of the mesh, started or planned for (CheckMesh); not a key.
  int64_t ranks = 0;

  // Whether the solver chooses how many ranks each axis has.
  bool open_mesh() const { return !tensor && !data; }
  // The ranks of each axis if the mesh is known; an open axis counts as one rank.
  int64_t data_ranks() const { return data.value_or(1); }
  int64_t tensor_ranks() const { return tensor.value_or(1); }
  bool shares_tokens() const { return tensor_ranks() > 1 && sequence == OnOrAuto::kOn; }
  // On a known mesh: sets keys without effect to fixed values, so that they leave no choice.
  void CloseWithoutEffect() {
    if (data_ranks() == 1 && !zero) zero = 0;
    if (tensor_ranks() == 1 && sequence == OnOrAuto::kAuto) sequence = OnOrAuto::kOff;
  }

  bool operator==(const ParallelConfig&) const = default;
};

struct RunDirConfig {
  std::string dir;  // derived: runs/ and the file's name
  bool overwrite = false;
  // For people who compare many runs; no computation depends on these.
  std::string name, notes;
  std::vector<std::string> tags;

  bool operator==(const RunDirConfig&) const = default;
};

struct SaveConfig {
  int64_t every = 0;       // steps between snapshots; 0: never
  int64_t keep = 2;        // number of newest snapshots to keep; 0: all
  int64_t keep_every = 0;  // also keep snapshots of steps divisible by this; 0: only the newest
  bool best = false;       // keep a snapshot of the best evaluation
  bool on_exit = true;     // save when a signal ends the run, and after the last step
  OnSaveError on_error = OnSaveError::kContinue;
  // A signal that ends the run, in addition to SIGTERM and SIGINT.
  StopSignal signal = StopSignal::kNone;
  bool async = false;  // write snapshots while training continues
  bool model = true;   // save the trained weights at the end

  bool operator==(const SaveConfig&) const = default;
};

struct DivergenceConfig {
  DivergenceAction action = DivergenceAction::kStop;
  double spike = 0;           // largest loss, in standard deviations above the mean; 0: no limit
  int64_t window = 100;       // number of steps for the mean and the deviation
  int64_t max_skips = 10;     // most skipped steps in a row
  double lr_factor = 0.5;     // factor of the learning rate at each rollback
  int64_t max_rollbacks = 3;  // most rollbacks in a run

  bool operator==(const DivergenceConfig&) const = default;
};

struct LogConfig {
  bool csv = true;          // write metrics.csv
  bool tensorboard = true;  // write events.out.tfevents.*
  bool report = true;       // write report.html
  // The folder of MLflow's files; empty: off. "true": the folder in MLFLOW_TRACKING_URI, or mlruns.
  std::string mlflow;

  bool operator==(const LogConfig&) const = default;
};

struct SampleConfig {
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the most likely token
  int64_t top_k = 0;         // 0: all tokens
  double top_p = 1;          // 1: all tokens
  std::vector<std::string> stop;
  int64_t seed = 1337;
  int64_t count = 1;

  bool operator==(const SampleConfig&) const = default;
};

struct DebugConfig {
  std::string dump_programs;  // folder; empty: off. `true` in the file means <run.dir>/programs
  std::string stop_after;     // the last pass: write programs after it, and train nothing
  std::vector<std::string> without;  // passes to leave out; none of them changes results
  bool verify_drafts = false;        // also verify the programs that the budget solver tries
  bool poison = false;               // fill every tensor with NaN after its last use
  bool find_nan = false;             // stop at the first op that writes a NaN or an infinity
  bool node_by_node = false;         // on a GPU: wait for each op, record no graphs
  // Detect with canaries, and report, the arena bytes really used.
  bool check_arena = false;
  bool host_apart = false;  // on a CPU: plan as if the host had a separate memory
  std::string act_as;       // compute capability, "8.6": choose kernels as on such a GPU

  bool operator==(const DebugConfig&) const = default;
};

// The settings of one of several objectives: the run's settings, overridden by the objective's.
struct ObjectiveConfig {
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  // The overrides: dotted key → value, as written on one line.
  std::map<std::string, std::string> own;

  bool operator==(const ObjectiveConfig&) const = default;
};

struct RunConfig {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  PreferenceConfig preference;
  LoraConfig lora;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  // Settings by objective; only for objectives that the file names.
  std::map<std::string, ObjectiveConfig> objectives;
  AmpConfig amp;
  CheckpointingConfig checkpointing;
  MemoryConfig memory;
  ParallelConfig parallel;
  Device device = Device::kAuto;
  RunDirConfig run;
  LogConfig log;
  SaveConfig save;
  DivergenceConfig divergence;
  SampleConfig sample;
  DebugConfig debug;

  // The key in trainer/resolve/known_gpus.h of the GPU to plan for; empty: this machine's GPU.
  std::string planned_gpu;
  std::string file;  // the name that the user gave; starts every message
  std::map<std::string, std::string>
      origins;  // dotted key → "run.yaml:12" or "--set"; keys that are set only

  // This configuration with the optimizer and schedule of that objective.
  RunConfig ForObjective(const std::string& name) const;

  bool IsSet(const std::string& key) const { return origins.count(key) > 0; }

  // The place where a key was given ("run.yaml:12", "--set"), or the file if the key has its
  // default.
  const std::string& Origin(const std::string& key) const {
    const auto found = origins.find(key);
    return found == origins.end() ? file : found->second;
  }

  // The place where a missing key belongs: the first line of its section.
  std::string PlaceFor(const std::string& key) const;

  // An error for mistakes that are found only with the model or the data: "run.yaml:12:
  // model.heads: <reason>".
  UserError Error(const std::string& key, const std::string& reason) const {
    return UserError(Origin(key) + ": " + key + ": " + reason);
  }
  // Returns the result of `make`. A UserError that `make` throws becomes an error about the key.
  template <typename Make>
  auto Naming(const std::string& key, const Make& make) const {
    try {
      return make();
    } catch (const UserError& error) {
      throw Error(key, error.what());
    }
  }
};

}  // namespace plimsoll::config
