// plimsoll config --for: files that load as they are, with plans within their budgets.
#include "trainer/propose/config_for.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "gpu/peak_rates.h"
#include "tests/data/image_folders.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/known_gpus.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_budget.h"

namespace plimsoll::trainer {
namespace {

using config::CheckpointPolicy;
using config::Dtype;
using config::PlaceOrAuto;
using config::RunConfig;
using testing::HasSubstr;

constexpr const char* kModel =
    "model: {family: gpt2, layers: 4, width: 256, heads: 4, vocab: 1024, sequence: 256}\n"
    "data: {synthetic: true}\n"
    "train: {steps: 2, micro_batch: 8, accumulate: 2, eval_every: 0}\n"
    "amp: {dtype: fp16, loss_scale: dynamic}\n"
    "run: {dir: elsewhere}\n";

std::string Written(const std::string& device, const std::string& budget,
                    const runtime::GpuReport& gpus = {}) {
  const TempFolder folder;
  return ConfigFor({folder.Write("model.yaml", kModel), device, budget}, gpus);
}

// What the command is refused with; empty: it isn't.
std::string RefusalOf(const ConfigForCommand& command) {
  return MessageOf<UserError>([&] { ConfigFor(command, {}); }).value_or("");
}

RunConfig Loaded(const std::string& text) { return LoadRunText(text, "written").config; }

// The device memory that the file's plan takes.
int64_t TakenBy(RunConfig config) {
  config.memory.calibrate = false;
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  const ResolvedRun resolved = ResolveRun(config, *model);
  return BudgetOf(config).profile.ProcessBytes(Compile(*model, resolved.options).plan.arena_bytes);
}

TEST(ConfigFor, OfEveryGpuTakesThePrecisionItHasAndFitsItsMemory) {
  for (const KnownGpu& gpu : KnownGpus()) {
    SCOPED_TRACE(gpu.key);
    EXPECT_NE(gpu::FindPeakRates(gpu.name), nullptr);
    const RunConfig config = Loaded(Written(gpu.key, ""));
    EXPECT_EQ(config.device, config::Device::kCuda);
    EXPECT_EQ(config.amp.dtype, gpu.capability.major >= 8 ? Dtype::kBf16 : Dtype::kFp16);
    EXPECT_EQ(config.memory.budget->bytes, gpu.memory_bytes() * 9 / 10 >> 30 << 30);
    EXPECT_LE(TakenBy(config), config.memory.budget->bytes);
  }
}

// With the 16 bits that the card has, or refused with the cards that multiply 8 bits.
TEST(ConfigFor, TakesEightBitLayersWhereTheCardHasThem) {
  const std::vector<std::string> sets = {"amp.fp8.recipe=current"};
  for (const std::string device : {"h100", "h200", "l40s", "4090"}) {
    SCOPED_TRACE(device);
    const RunConfig config =
        Loaded(ConfigFor({.model = "gpt2-124m", .device = device, .budget = "", .sets = sets}, {}));
    EXPECT_EQ(config.amp.dtype, Dtype::kBf16);
    EXPECT_EQ(config.amp.fp8_recipe, config::Fp8Recipe::kCurrent);
    EXPECT_LE(TakenBy(config), config.memory.budget->bytes);
  }
  for (const std::string device : {"a100", "t4"}) {
    EXPECT_THAT(RefusalOf({.model = "gpt2-124m", .device = device, .budget = "", .sets = sets}),
                HasSubstr("matrix units for 8-bit floats"));
  }
}

TEST(ConfigFor, KeepsTheModelAndItsBatchAndReplacesTheRest) {
  const RunConfig config = Loaded(Written("h200", "24GiB"));
  EXPECT_EQ(config.model.settings.Int("layers"), 4);
  EXPECT_EQ(config.train.steps, 2);
  EXPECT_EQ(config.train.micro_batch * config.train.accumulate, 16);
  EXPECT_EQ(config.checkpointing.policy, CheckpointPolicy::kNone);
  EXPECT_NE(config.run.dir, "elsewhere");
  EXPECT_FALSE(config.IsSet("amp.loss_scale"));
}

// A batch norm sees its micro-batch, which no choice may change, on however many GPUs.
TEST(ConfigFor, KeepsTheMicroBatchOfABatchNorm) {
  const TempFolder folder;
  const std::string model = folder.Write("model.yaml", R"(
model: {family: resnet, depth: 20, image_size: 32, classes: 10}
data: {source: synthetic_images}
train: {steps: 2, micro_batch: 24, accumulate: 3, eval_every: 0}
)");
  const RunConfig config = Loaded(ConfigFor({model, "h200", "24GiB"}, {}));
  EXPECT_EQ(config.train.micro_batch, 24);
  EXPECT_EQ(config.train.accumulate, 3);
  EXPECT_FALSE(config.IsSet("train.global_batch"));
}

// Images are no tokens: GPT-3's batches say nothing of them.
TEST(ConfigFor, KeepsTheBatchOfImages) {
  const RunConfig config = Loaded(ConfigFor({"vit-large", "h200", ""}, {}));
  EXPECT_EQ(config.train.global_batch, 32);
}

TEST(ConfigFor, SmallerBudgetsCutTheBatchOrRecompute) {
  const RunConfig ample = Loaded(Written("cpu", "1GiB"));
  const int64_t whole = TakenBy(ample);
  const RunConfig tight = Loaded(Written("cpu", std::to_string(whole - 1) + "B"));
  EXPECT_LT(TakenBy(tight), whole);
  EXPECT_TRUE(tight.train.micro_batch < ample.train.micro_batch ||
              tight.checkpointing.policy == CheckpointPolicy::kAuto);
  EXPECT_EQ(tight.train.micro_batch * tight.train.accumulate, 16);
}

TEST(ConfigFor, PutsTheStateOnTheHostWhereNothingFitsOtherwise) {
  const TempFolder folder;
  const std::string model = folder.Write(
      "model.yaml",
      "model: {family: gpt2, layers: 8, width: 768, heads: 12, vocab: 256, sequence: 64}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 1}\n");
  const RunConfig config = Loaded(ConfigFor({model, "h200", "1200MiB"}, {}));
  EXPECT_EQ(config.optimizer.place, PlaceOrAuto::kHost);
  EXPECT_LE(TakenBy(config), int64_t{1200} << 20);
}

// Weights and gradients follow the state to the host where it alone does not make room.
TEST(ConfigFor, LeavesTheRestToTheSolverWhereTheStateIsNotEnough) {
  const TempFolder folder;
  const std::string model = folder.Write(
      "model.yaml",
      "model: {family: llama, layers: 8, width: 768, heads: 12, kv_heads: 12, ffn_width: 2048, "
      "vocab: 256, sequence: 64, tied: false}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 1}\n"
      "optimizer: {clip_grad_norm: 0}\n");
  const std::string written = ConfigFor({model, "h200", "810MiB"}, {});
  const RunConfig config = Loaded(written);
  EXPECT_EQ(config.optimizer.place, PlaceOrAuto::kHost) << written;
  EXPECT_EQ(config.memory.weights, PlaceOrAuto::kHost);
  EXPECT_EQ(config.optimizer.in_backward, config::OnOrAuto::kOn);
  EXPECT_LE(TakenBy(config), int64_t{810} << 20);
}

// Where the parameters alone take more than the budget, weights live on the host, and the file says
// what that takes.
TEST(ConfigFor, ALargeModelOnASmallGpuHasItsWeightsOnTheHost) {
  const TempFolder folder;
  const std::string model = folder.Write(
      "model.yaml",
      "model: {family: llama, layers: 24, width: 1024, heads: 8, kv_heads: 8, ffn_width: 8192, "
      "vocab: 1024, sequence: 128}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 1, global_batch: 2}\n");
  const std::string written = ConfigFor({model, "rtx4090", "1400MiB"}, {});
  EXPECT_THAT(written, testing::ContainsRegex(
                           "# Takes 1.[0-9]+ GiB of the GPU and 1?[0-9.]+ GiB of the host, "
                           "pinned.\n# By built-in rates a step of 256 tokens takes about [0-9.]+ "
                           "ms, [0-9.k]+ tokens/s.\n# The rates are of an NVIDIA H200 without "
                           "Hopper's kernels, scaled (.|\n)*, never\n?#? measured there.\n# Next "
                           "to frozen weights adapters take"));
  RunConfig config = Loaded(written);
  EXPECT_EQ(config.memory.device, "4090");
  EXPECT_EQ(config.memory.weights, PlaceOrAuto::kHost);
  EXPECT_EQ(config.optimizer.place, PlaceOrAuto::kHost);
  config.planned_gpu = config.memory.device;
  EXPECT_LE(TakenBy(config), int64_t{1400} << 20);
}

TEST(ConfigFor, SaysWhatWouldFitWhereNothingDoes) {
  // Small: each change is planned.
  const TempFolder folder;
  const std::string model = folder.Write(
      "model.yaml",
      "model: {family: gpt2, layers: 1, width: 256, heads: 4, vocab: 256, sequence: 64}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 2}\n");
  try {
    ConfigFor({model, "h200", "604MiB"}, {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kBudgetNotMet);
    EXPECT_THAT(error.what(), HasSubstr("config --for: memory.budget: 604 MiB"));
  }
}

TEST(ConfigFor, LargeModelsOnGpusTakeTheBatchOfTheirSize) {
  const RunConfig config =
      Loaded(ConfigFor({"configs/models/gpt2-124m.yaml", "a100", "30GiB"}, {}));
  EXPECT_EQ(*config.train.global_batch * config.model.sequence(), 1 << 19);
}

TEST(ConfigFor, SaysWhetherThisBuildHasCodeForTheGpu) {
  EXPECT_THAT(Written("t4", ""), HasSubstr("this build has no CUDA"));
  runtime::GpuReport build;
  build.cuda_build = true;
  build.architectures = "80,90";
  EXPECT_THAT(Written("h100", "", build), HasSubstr("this build has code for it"));
  EXPECT_THAT(Written("4090", "", build), HasSubstr("this build has code for it"));
  const std::string t4 = Written("t4", "", build);
  ExpectText(t4, {"this build has no code for it", "CUDA_ARCHITECTURES=75"});
}

TEST(ConfigFor, WithoutADeviceIsForWhatIsHere) {
  EXPECT_EQ(Loaded(Written("", "1GiB")).device, config::Device::kCpu);
  runtime::GpuReport gpus;
  gpus.cuda_build = true;
  gpus.architectures = "75";
  runtime::GpuFacts gpu;
  gpu.name = "Tesla T4";
  gpu.capability = {7, 5};
  gpu.total_bytes = int64_t{15} << 30;
  gpu.visible = true;
  gpus.gpus = {gpu};
  const std::string text = Written("", "", gpus);
  EXPECT_THAT(text, HasSubstr("Tesla T4"));
  EXPECT_EQ(Loaded(text).memory.budget->bytes, int64_t{13} << 30);
}

// A folder with config.json alone.
std::string FolderOf(const TempFolder& folder, const std::string& name, const std::string& config) {
  std::filesystem::create_directories(folder.path() + "/" + name);
  folder.Write(name + "/config.json", config);
  return folder.path() + "/" + name;
}

constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 64, "vocab_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "tie_word_embeddings": false})";

TEST(ConfigFor, OfAFolderFineTunesSamplesOfAUsualLength) {
  const TempFolder temporary;
  const std::string folder = FolderOf(temporary, "llama", kLlama);
  const std::string text = ConfigFor({folder, "4090", ""}, {});
  ExpectText(text, {"Tokens of a sample, of the 131072 that the model allows",
                    "its config.json is enough for `plimsoll plan`"});
  const RunConfig config = Loaded(text);
  EXPECT_EQ(config.model.sequence(), 2048);
  EXPECT_EQ(config.train.global_batch, 128);
  EXPECT_EQ(config.optimizer.lr, 2e-5);
  EXPECT_EQ(config.schedule.warmup, 30);
}

TEST(ConfigFor, AdaptersHaveABatchAndARateOfTheirOwn) {
  const TempFolder temporary;
  const std::string folder = FolderOf(temporary, "llama", kLlama);
  for (const std::string& model : {folder, std::string("llama-1b")}) {
    SCOPED_TRACE(model);
    const std::string text =
        ConfigFor({.model = model, .device = "4090", .budget = "", .lora_rank = 8}, {});
    const RunConfig config = Loaded(text);
    EXPECT_EQ(config.lora.rank, 8);
    EXPECT_EQ(config.lora.alpha, 16);
    EXPECT_EQ(config.train.global_batch, 16);
    EXPECT_EQ(config.train.steps, 1000);
    EXPECT_EQ(config.optimizer.lr, 2e-4);
    EXPECT_EQ(config.optimizer.weight_decay, 0);
    EXPECT_EQ(config.model.sequence(), 2048);
    EXPECT_THAT(text, HasSubstr("--device 4090 --lora 8\n"));
  }
}

// Data of another form, or too few for the batch, are refused before a file is written.
TEST(ConfigFor, RefusesDataThatTrainingWouldRefuse) {
  const TempFolder temporary;
  const std::string folder = FolderOf(temporary, "llama", kLlama);
  const std::string examples =
      temporary.Write("a.jsonl", "{\"prompt\": \"1 + 1 =\", \"completion\": \" 2\"}\n");
  const auto error = [&](std::vector<std::string> sets) {
    return RefusalOf({.model = folder, .device = "cpu", .budget = "", .sets = std::move(sets)});
  };
  EXPECT_THAT(error({"data.train=" + examples}), HasSubstr("data.tokenizer"));
  EXPECT_THAT(error({"data.train=" + examples, "data.tokenizer=byte"}), HasSubstr("data.train"));
  EXPECT_THAT(error({"data.folder=pictures"}), HasSubstr("no data.source that this model reads"));
  EXPECT_THAT(error({"model.init_from=elsewhere"}), HasSubstr("says what --for says"));
}

TEST(ConfigFor, RefusesAdaptersOfAModelWithoutLayersForThem) {
  EXPECT_THAT(RefusalOf({.model = "resnet-18", .device = "4090", .budget = "", .lora_rank = 8}),
              testing::StartsWith("config --for resnet-18: --lora: "));
}

// Over random weights an adapter is a trial on made-up samples.
TEST(ConfigFor, RefusesAdaptersOfOwnDataOverRandomWeights) {
  const TempFolder folder;
  const std::string examples =
      folder.Write("a.jsonl", "{\"prompt\": \"1 + 1 =\", \"completion\": \" 2\"}\n");
  const auto error = [&](const std::string& model, std::vector<std::string> sets) {
    return RefusalOf(
        {.model = model, .device = "h100", .budget = "", .sets = std::move(sets), .lora_rank = 16});
  };
  ExpectText(error("llama-8b", {"data.train=[" + examples + "]"}),
             {"config --for llama-8b: --lora: ", "start at random", "--for FOLDER",
              "leave out data.train"});
  const std::string model =
      "model: {family: gpt2, layers: 2, width: 64, heads: 4, vocab: 256, sequence: 16}\n";
  const std::string run =
      folder.Write("run.yaml", model + "data: {train: " + examples + ", tokenizer: byte}\n");
  EXPECT_THAT(error(run, {}), testing::EndsWith("add --set data.synthetic=true"));
  EXPECT_EQ(error(run, {"data.synthetic=true"}), "");
}

// What somebody gives is in the file as it is, and the other choices go with it.
TEST(ConfigFor, HonoursWhatIsSet) {
  const TempFolder folder;
  const std::string model = folder.Write("model.yaml", kModel);
  const auto with = [&](std::vector<std::string> sets, const std::string& device = "h200") {
    return Loaded(
        ConfigFor({.model = model, .device = device, .budget = "", .sets = std::move(sets)}, {}));
  };
  EXPECT_EQ(with({"amp.dtype=fp32"}).amp.dtype, Dtype::kFp32);
  EXPECT_EQ(with({"model.layers=3"}).model.settings.Int("layers"), 3);
  const RunConfig block = with({"checkpointing.policy=block", "train.steps=7"});
  EXPECT_EQ(block.checkpointing.policy, CheckpointPolicy::kBlock);
  EXPECT_EQ(block.train.steps, 7);
  const RunConfig cut = with({"train.micro_batch=3"});
  EXPECT_EQ(cut.train.micro_batch, 3);
  EXPECT_EQ(cut.train.global_batch, 6);  // with the file's two micro-steps
  EXPECT_EQ(with({"train.global_batch=4"}).train.global_batch, 4);
  EXPECT_EQ(with({"train.global_batch_tokens=1024"}).train.global_batch_tokens, 1024);
  const RunConfig adapters = with({"train.micro_batch=3", "lora.rank=4"});
  EXPECT_EQ(adapters.train.global_batch, 15);  // the most of 16
  const RunConfig counted = with({"train.micro_batch=2", "train.accumulate=5"});
  EXPECT_EQ(counted.train.micro_batch * counted.train.accumulate, 10);
  EXPECT_EQ(with({"memory.budget=7GiB"}).memory.budget->bytes, int64_t{7} << 30);
  EXPECT_EQ(with({"memory.device=4090"}, "").memory.device, "4090");
  EXPECT_EQ(with({"device=cpu"}, "").device, config::Device::kCpu);
  EXPECT_EQ(with({"optimizer.place=host"}).optimizer.place, PlaceOrAuto::kHost);
  EXPECT_EQ(with({"lora.rank=4", "lora.alpha=5"}).lora.alpha, 5);
}

TEST(ConfigFor, RefusesNonsenseInWhatIsSet) {
  const auto with = [](const std::string& set) {
    return RefusalOf({.model = "vit-tiny", .device = "h200", .budget = "9GiB", .sets = {set}});
  };
  EXPECT_THAT(with("nonsense=1"), HasSubstr("--set: nonsense: unknown key"));
  EXPECT_THAT(with("train.steps=many"), HasSubstr("--set: train.steps"));
  EXPECT_EQ(with("memory.device=4090"), "--set: memory.device: says what --device says; keep one");
  EXPECT_EQ(with("memory.budget=1GiB"), "--set: memory.budget: says what --budget says; keep one");
}

// The source of data is the one that has the keys.
TEST(ConfigFor, TakesTheSourceOfTheDataThatIsNamed) {
  const auto source_of = [](const std::string& model, const std::vector<std::string>& sets) {
    return Loaded(ConfigFor({.model = model, .device = "cpu", .budget = "", .sets = sets}, {}))
        .data.source;
  };
  EXPECT_EQ(source_of("vit-tiny", {}), "synthetic_images");
  EXPECT_EQ(source_of("vit-tiny", {"data.seed=3"}), "synthetic_images");
  // The file's own source may not go with another task.
  EXPECT_EQ(source_of("bert-base", {"model.task=classification", "model.classes=3"}),
            "synthetic_texts");
}

// The data that somebody names are looked at, and the file follows them.
TEST(ConfigFor, FollowsTheDataThatAreNamed) {
  const TempFolder folder;
  data::WriteIdxFolder(folder, 40, 10);
  const std::string animals = folder / "animals";
  ExpectExit(0, RunPlimsoll({"data", "images", animals, "--from", folder.path(), "--format", "png",
                             "--classes", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}));
  for (const char* part : {"/train/", "/test/"}) {
    for (char name = 'd'; name <= 'j'; ++name) {
      std::filesystem::remove_all(animals + part + std::string(1, name));
    }
  }
  const auto written = [&](const std::string& model, const std::string& data) {
    return ConfigFor(
        {.model = model, .device = "cpu", .budget = "", .sets = {"data.folder=" + data}}, {});
  };
  const RunConfig config = Loaded(written("vit-tiny", animals));
  EXPECT_EQ(config.data.source, "images");
  EXPECT_EQ(config.model.settings.Int("classes"), 3);
  EXPECT_GT(config.train.eval_every, 0);
  EXPECT_THROW(written("vit-tiny", folder / "missing"), UserError);
}

// One question has one answer: what the refusal names is enough, and less is refused with the same
// number by the file's own plan.
TEST(ConfigFor, NamesTheSmallestPlanThatPlansHave) {
  const TempFolder temporary;
  const std::string folder = FolderOf(temporary, "llama", kLlama);
  for (const int64_t rank : {0, 8}) {
    const auto refused = [&](const std::string& budget) -> int64_t {
      const std::string text =
          RefusalOf({.model = folder, .device = "4090", .budget = budget, .lora_rank = rank});
      const size_t from = text.find("needs ");
      return from == text.npos ? 0 : std::stoll(text.substr(text.find('(', from) + 1));
    };
    const int64_t least = refused("606MiB");
    ASSERT_GT(least, int64_t{606} << 20);
    EXPECT_EQ(refused(std::to_string(least - 1) + "B"), least);
    const std::string text = ConfigFor({.model = folder,
                                        .device = "4090",
                                        .budget = std::to_string(least) + "B",
                                        .lora_rank = rank},
                                       {});
    RunConfig config = Loaded(text);
    config.planned_gpu = config.memory.device;
    EXPECT_LE(TakenBy(config), least);
  }
}

// A GAN's objectives are part of its file.
TEST(ConfigFor, KeepsTheKeysOfObjectives) {
  const TempFolder folder;
  const std::string model = folder.Write("gan.yaml", R"(
model: {family: dcgan, image_size: 32, generator_features: 8, discriminator_features: 8}
data: {source: synthetic_images}
train: {micro_batch: 8, eval_every: 0}
objectives: {generator: {optimizer: {lr: 1e-3}}}
)");
  const RunConfig config = Loaded(ConfigFor({model, "h200", ""}, {}));
  EXPECT_EQ(config.objectives.at("generator").optimizer.lr, 1e-3);
}

TEST(ConfigFor, FindsAShippedFileAnywhere) {
  const TempFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(FindModelFile("vit-base"), "configs/models/vit-base.yaml");
  EXPECT_EQ(FindModelFile("configs/models/vit-base.yaml"), "configs/models/vit-base.yaml");
  std::filesystem::current_path(before);
}

TEST(ConfigFor, CardsHaveSeveralNames) {
  for (const char* name : {"4090", "rtx4090", "RTX 4090", "rtx-4090", "NVIDIA GeForce RTX 4090"}) {
    EXPECT_STREQ(RequireGpu(name).key, "4090") << name;
  }
  EXPECT_STREQ(RequireGpu("a100-80gb").key, "a100");
  EXPECT_STREQ(RequireGpu("A100-40GB").key, "a100-40gb");
  EXPECT_STREQ(RequireGpu("3090").key, "3090");
  EXPECT_STREQ(RequireGpu("tesla-t4").key, "t4");
  const std::pair<const char*, const char*> names[] = {
      {"RTX 4060 Ti", "4060ti"},
      {"4060ti-16gb", "4060ti"},
      {"rtx-4060-ti-8gb", "4060ti-8gb"},
      {"NVIDIA GeForce RTX 4060 Ti 8 GB", "4060ti-8gb"},
      {"RTX A5000", "a5000"},
      {"rtx6000ada", "rtx-6000-ada"},
      {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
      {"RTX PRO 6000", "rtx-pro-6000"},
      {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"},
      {"GB200", "gb200"},
      {"3060-12gb", "3060"},
  };
  for (const auto& [name, key] : names) EXPECT_STREQ(RequireGpu(name).key, key) << name;
  EXPECT_THROW(RequireGpu("3060ti"), UserError);
  EXPECT_THROW(RequireGpu("Tesla V100"), UserError);
  EXPECT_THROW(RequireGpu("RTX 6000"), UserError);
  EXPECT_THROW(RequireGpu("a100-20gb"), UserError);
  EXPECT_THROW(RequireGpu(""), UserError);
}

TEST(ConfigFor, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(Written("h2000", ""), UserError);
  EXPECT_THROW(Written("h200", "much"), UserError);
  EXPECT_EQ(FindModelFile("gpt2-124m"), "configs/models/gpt2-124m.yaml");
  EXPECT_EQ(UserErrorOf([] { FindModelFile("gpt2-125m"); }),
            "--for gpt2-125m: no such model; did you mean gpt2-124m?");
}

}  // namespace
}  // namespace plimsoll::trainer
