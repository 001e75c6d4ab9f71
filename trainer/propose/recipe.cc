// Usual recipes for each kind of training: the sequence, batch, steps, learning rate and schedule
// of a run file to start from.
#include <fmt/format.h>

#include <algorithm>

#include "trainer/propose/choices.h"

namespace plimsoll::trainer {
namespace {

using config::RunConfig;

// Tokens per update for the model's size, as in GPT-3 (Brown et al. 2020, table 2.1), rounded to
// powers of 2.
int64_t BatchTokens(int64_t parameters) {
  if (parameters < 1'000'000'000) return int64_t{1} << 19;
  if (parameters < 5'000'000'000) return int64_t{1} << 20;
  return int64_t{1} << 21;
}

// GPT-3's table has no entry for models smaller than this.
constexpr int64_t kSmallModel = 100'000'000;

// Whether the user gives the number of samples in an update.
bool AsksForBatch(const Choices& choices) {
  return choices.IsAsked("train.global_batch") || choices.IsAsked("train.global_batch_tokens") ||
         choices.IsAsked("train.accumulate");
}

// Sets the batch. If the user gives the micro-batch, rounds the batch down to a multiple of it.
void SetBatch(int64_t samples, const std::string& why, Choices& choices) {
  if (AsksForBatch(choices)) return;
  const RunConfig& base = choices.base();
  if (choices.IsAsked("train.micro_batch") && base.train.micro_batch > 0) {
    const int64_t each = base.train.micro_batch;
    samples = std::max<int64_t>(1, samples / each) * each;
  }
  choices.Set("train.global_batch", std::to_string(samples), why);
}

// Sets the micro-batch for a model in which all samples of a micro-batch affect one another.
void KeepMicroBatch(int64_t samples, Choices& choices) {
  choices.Set("train.micro_batch", std::to_string(samples),
              "All samples of a micro-batch act on one another in this model, so that its size is "
              "part of the mathematics (docs/batch_norm.md). Each GPU takes one, and an update all "
              "of them.");
  const int64_t accumulate = choices.base().train.accumulate;
  if (accumulate > 1) choices.Set("train.accumulate", std::to_string(accumulate));
}

struct Recipe {
  int64_t samples;  // number of samples in an update
  const char *lr, *weight_decay;
  std::string lr_why;
  const char* whose;  // source of the batch size
};

Recipe RecipeOf(const models::Model& model, int64_t rank) {
  const bool continues_texts = model.text_sizes().has_value();
  if (rank > 0) {
    constexpr int64_t kLarge = 20'000'000'000;
    return {.samples = 16,
            .lr = model.parameter_count() < kLarge ? "2e-4" : "1e-4",
            .weight_decay = "0",
            .lr_why =
                "As QLoRA trains adapters of models of this size (Dettmers et al. 2023, "
                "table 9).",
            .whose = "As QLoRA takes (Dettmers et al. 2023, table 9)"};
  }
  if (continues_texts) {
    return {.samples = 128,
            .lr = "2e-5",
            .weight_decay = "0",
            .lr_why =
                "A tenth and less of the rate of training from scratch: as Alpaca was trained "
                "(Taori et al. 2023).",
            .whose = "As Alpaca was trained (Taori et al. 2023)"};
  }
  return {.samples = 32,
          .lr = model.inputs().contains("tokens") ? "3e-5" : "5e-5",
          .weight_decay = "0.01",
          .lr_why = "A tenth and less of the rate of training from scratch.",
          .whose = "A usual batch of fine-tuning (that of BERT: Devlin et al. 2019, A.3)"};
}

}  // namespace

void ChooseBatch(const models::Model& model, const Target& target, Choices& choices) {
  const RunConfig& base = choices.base();
  if (base.train.micro_batch > 0 && model.sample_coupling().whole_micro_batch()) {
    return KeepMicroBatch(base.train.micro_batch, choices);
  }
  if (base.train.global_batch || base.train.global_batch_tokens) return;
  const int64_t parameters = model.parameter_count(), sequence = base.model.sequence();
  const bool fine_tunes = !base.model.init_from.empty();
  if (!target.gpu || parameters < kSmallModel || sequence == 1 || fine_tunes) {
    return SetBatch(base.train.micro_batch * base.train.accumulate, "As in the model's file.",
                    choices);
  }
  const int64_t tokens = BatchTokens(parameters);
  SetBatch(std::max<int64_t>(1, tokens / sequence),
           fmt::format("{} tokens an update, as GPT-3 takes for models of this size (Brown et al. "
                       "2020, table 2.1), on any number of GPUs.",
                       tokens),
           choices);
}

void ChooseFineTuning(const models::Model& model, int64_t rank, Choices& choices) {
  const RunConfig& base = choices.base();
  const Recipe recipe = RecipeOf(model, rank);
  if (rank > 0) {
    const bool trial = base.model.init_from.empty();
    choices.Set("lora.rank", std::to_string(rank),
                trial ? "A trial of time and memory, over weights that start at random. To train "
                        "adapters of a checkpoint, name its folder: config --for FOLDER."
                      : "As asked for.");
    if (!choices.Keeps("lora.alpha")) {
      choices.Set("lora.alpha", std::to_string(2 * rank), "Twice the rank, as is usual.");
    }
    if (!choices.Keeps("lora.targets")) {
      choices.Set("lora.targets", "[all-linear]",
                  "Adapters of all linear layers learn as much as full fine-tuning (Dettmers "
                  "et al. 2023, section 4).");
    }
  }
  if (model.sample_coupling().whole_micro_batch()) {
    KeepMicroBatch(base.IsSet("train.micro_batch") ? base.train.micro_batch : recipe.samples,
                   choices);
  } else {
    SetBatch(recipe.samples, recipe.whose + std::string(", on any number of GPUs."), choices);
  }
  int64_t steps = base.train.steps;
  if (!choices.IsAsked("train.epochs") && !choices.IsAsked("train.steps")) {
    steps = 1000;
    choices.Set("train.steps", std::to_string(steps),
                fmt::format("{} samples. With data of your own, train.epochs: 3 counts them in "
                            "place of this.",
                            steps * recipe.samples));
  }
  if (!choices.IsAsked("optimizer.name")) choices.Set("optimizer.name", "adamw");
  choices.Set("optimizer.lr", recipe.lr, recipe.lr_why);
  choices.Set("optimizer.weight_decay", recipe.weight_decay);
  choices.Set("schedule.name", "cosine", "The rate rises over 3 % of the steps and falls to 0.");
  if (steps > 0) {
    choices.Set("schedule.warmup", std::to_string(std::max<int64_t>(1, steps * 3 / 100)));
  }
  if (base.IsSet("schedule.min_lr")) choices.Set("schedule.min_lr", "0");
}

}  // namespace plimsoll::trainer
