#include "trainer/config/learning_keys.h"

#include <string>

#include "trainer/config/key_rows.h"

namespace plimsoll::config {
namespace {

void PreferenceKeys(std::vector<Key>& keys) {
  using P = PreferenceConfig;
  const std::vector<std::string> any = {"dpo", "ipo"};
  SectionKeys<P> preference(keys, "preference", &RunConfig::preference);
  preference.Add(
      "loss", &P::loss,
      "What is learnt of pairs of answers, `{\"prompt\": …, \"chosen\": …, "
      "\"rejected\": …}` (`*.jsonl`; docs/preferences.md): `dpo` (Rafailov et al. 2023), "
      "`ipo` (Azar et al. 2023); `none`: examples are no pairs. The reference is the "
      "model as the run begins, adapters included.");
  preference.Add("beta", &P::beta, "How close to the reference the model stays.")
      .Between(0, 1000)
      .Above(0)
      .When("preference.loss", any);
  preference
      .Add("label_smoothing", &P::label_smoothing,
           "The share of pairs whose answers are taken to be the wrong way round.")
      .AtLeast(0)
      .Below(0.5)
      .When("preference.loss", {"dpo"});
  preference
      .Add(
          "sft_weight", &P::sft_weight,
          "How much the mean negative log-probability of the chosen answer's tokens counts, as the "
          "mean over the pairs, in addition.")
      .Between(0, 1000)
      .When("preference.loss", any);
  preference
      .Add("dropout", &P::dropout,
           "`off`: training draws no dropout masks, neither of the model nor of adapters, since "
           "the reference has none; `model`: it draws those of `model.dropout` and "
           "`lora.dropout`.")
      .When("preference.loss", any);
}

void LoraKeys(std::vector<Key>& keys) {
  using L = LoraConfig;
  SectionKeys<L> lora(keys, "lora", &RunConfig::lora);
  lora.Add("rank", &L::rank, "Rank of the adapters; 0: none.")
      .Between(0, kThousands)
      .Derived("0; with `init_from` the adapter's");
  lora.Add("alpha", &L::alpha, "Adapters count `alpha` / `rank`.")
      .Between(0, 1e6)
      .Above(0)
      .Derived("16; with `init_from` the adapter's");
  lora.Add("targets", &L::targets,
           "Linear layers that get an adapter, as ends of Hugging Face's names (`q_proj`, "
           "`attn.c_proj`) or patterns of such ends (`layers.?.mlp.*`); `all-linear`: all but the "
           "head.")
      .Derived("all-linear; with `init_from` the adapter's");
  lora.Add("dropout", &L::dropout, "Dropout on what adapters read.")
      .AtLeast(0)
      .Below(1)
      .Derived("0; with `init_from` the adapter's");
  lora.Add("rslora", &L::rslora, "Adapters count `alpha` / √`rank` instead.")
      .Derived("false; with `init_from` the adapter's");
  lora.Add("modules_to_save", &L::modules_to_save,
           "Modules that are trained in full and stored with the adapters, named as `targets` are "
           "(`classifier`, `lm_head`). Modules that the checkpoint lacks, such as a fresh "
           "classifier, are always among them.")
      .Derived("[]; with `init_from` the adapter's");
  lora.Add("init_from", &L::init_from,
           "Folder of an adapter in PEFT's form (`adapter_config.json`, "
           "`adapter_model.safetensors`) to start from.");
}

void OptimizerKeys(std::vector<Key>& keys) {
  using O = OptimizerConfig;
  SectionKeys<O> optimizer(keys, "optimizer", &RunConfig::optimizer);
  optimizer.Add("name", &O::name,
                "AdamW; SGD with momentum; or Muon, which updates the weights of linear layers in "
                "blocks by orthogonalised momentum, and leaves all else to AdamW "
                "(docs/muon.md).");
  optimizer.Add("lr", &O::lr, "Peak learning rate.").Between(0, 1000);
  optimizer.Add("betas", &O::betas, "Decay of the moment estimates.")
      .AtLeast(0)
      .Below(1)
      .When("optimizer.name", {"adamw", "muon"});
  optimizer.Add("eps", &O::eps, "Added to the root of the second moment.")
      .Above(0)
      .Below(1)
      .When("optimizer.name", {"adamw", "muon"});
  optimizer.Add("momentum", &O::momentum, "Momentum.")
      .Derived("0.9; 0.95 with `name: muon`")
      .AtLeast(0)
      .Below(1)
      .When("optimizer.name", {"sgd", "muon"});
  optimizer.Add("nesterov", &O::nesterov, "Nesterov momentum.")
      .Derived("false; true with `name: muon`")
      .When("optimizer.name", {"sgd", "muon"});
  optimizer
      .Add("newton_schulz_steps", &O::newton_schulz_steps,
           "How many Newton-Schulz steps make Muon's momentum nearly orthogonal, of three matrix "
           "products each.")
      .Between(1, 99)
      .When("optimizer.name", {"muon"});
  optimizer
      .Add("adjust_lr", &O::adjust_lr,
           "What Muon multiplies `lr` by for a matrix [rows, columns]: 0.2·√max(rows, columns) "
           "(`match_rms_adamw`), with which its elements move as far as AdamW's, so that one `lr` "
           "and `weight_decay` serve both; or √max(1, rows / columns) (`original`).")
      .When("optimizer.name", {"muon"});
  optimizer
      .Add("weight_decay", &O::weight_decay,
           "Weight decay on tensors of rank 2 and more: decoupled for adamw and muon, an L2 term "
           "for "
           "sgd.")
      .Between(0, 1000);
  optimizer.Add("weight_decay_groups", &O::weight_decay_groups,
                "Weight decay by parameter name, whatever the rank: `[{pattern: \"*.norm*\", "
                "weight_decay: 0}]`; the "
                "first match wins.");
  optimizer
      .Add("layer_decay", &O::layer_decay,
           "What the learning rate is multiplied by from layer to layer, for fine-tuning: with L "
           "blocks the head has 1, block i (from 0) `layer_decay`^(L − i), and the embeddings "
           "`layer_decay`^(L + 1) (docs/recipes.md); 1: all learn alike.")
      .Above(0)
      .Between(0, 1);
  optimizer
      .Add("clip_grad_norm", &O::clip_grad_norm, "Largest norm of the gradient; 0: no clipping.")
      .AtLeast(0);
  optimizer.Add("clip_by", &O::clip_by,
                "What `clip_grad_norm` bounds: the norm of all gradients of the step (`step`), as "
                "PyTorch's `clip_grad_norm_`; that of each parameter's gradient by itself "
                "(`parameter`), which changes the direction of the step; or, with one factor for "
                "all, the norm that all had in the step before (`last_step`), which lets a sudden "
                "rise through once. Only `step` has to wait for all gradients (`in_backward`).");
  optimizer.Add("in_backward", &O::in_backward,
                "Updates each parameter within the backward pass, as soon as its gradient is "
                "complete and nothing reads its weight any more: gradients then never all exist at "
                "once, and all numbers are the same. Not where an update waits for all gradients: "
                "with `clip_grad_norm`, loss scaling, and steps that may be skipped; and gradients "
                "of several micro-steps stay where they are, unless `train.blocks_first` is set or "
                "they are on the host "
                "(docs/parameter_memory.md). `auto`: if that is fastest within the budget.");
  optimizer
      .Add("ema", &O::ema,
           "Decay of exponential moving averages of the weights, over applied updates: after each, "
           "average += (1 − `ema`)(weight − average), beginning with the weights after the first. "
           "Evaluations are made of both, and the run also leaves `model_ema/` (docs/recipes.md). "
           "0: none.")
      .AtLeast(0)
      .Below(1);
  optimizer.Add("ema_warmup", &O::ema_warmup,
                "The decay after n updates is at most (1 + n) / (10 + n), so that early weights "
                "are soon forgotten.");
  optimizer.Add("state_dtype", &O::state_dtype,
                "Type of the moments: float32, bf16 with stochastic rounding, or 8 bits in blocks "
                "with a scale each.");
  optimizer.Add("place", &O::place,
                "Where moments and master weights live; `auto`: on the host if the budget asks for "
                "it.");
}

void ScheduleKeys(std::vector<Key>& keys) {
  using S = ScheduleConfig;
  SectionKeys<S> schedule(keys, "schedule", &RunConfig::schedule);
  const std::vector<std::string> decaying = {"linear", "cosine", "wsd"};
  schedule.Add("name", &S::name,
               "Learning rate after the warm-up; `wsd` is warm-up, stable, decay, and `multistep` "
               "falls at milestones.");
  schedule
      .Add("warmup", &S::warmup,
           "Steps of linear warm-up; more than the run has are shortened to a tenth of these.")
      .Between(0, kSteps)
      .Derived("0; with `warmup_epochs`, what they take");
  schedule.Add("warmup_epochs", &S::warmup_epochs, "The same in epochs; 0: `warmup` says it.")
      .Between(0, kEpochs);
  schedule.Add("min_lr", &S::min_lr, "Learning rate at the end.")
      .AtLeast(0)
      .When("schedule.name", decaying);
  schedule.Add("decay_fraction", &S::decay_fraction, "Part of the steps that decays.")
      .Between(0, 1)
      .When("schedule.name", {"wsd"});
  schedule.Add("decay_steps", &S::decay_steps, "The same in steps.")
      .Between(0, kSteps)
      .Derived("`decay_fraction` of `train.steps`")
      .When("schedule.name", {"wsd"});
  schedule
      .Add("milestones", &S::milestones,
           "Steps from which on the learning rate is `gamma` times what it was, in rising order; "
           "counted from the first step, warm-up included.")
      .Between(1, kSteps)
      .Derived("with `milestone_epochs`, the steps that begin with them")
      .When("schedule.name", {"multistep"});
  schedule.Add("milestone_epochs", &S::milestone_epochs, "The same in epochs: `[30, 60, 80]`.")
      .Above(0)
      .Between(0, kEpochs)
      .When("schedule.name", {"multistep"});
  schedule.Add("gamma", &S::gamma, "What each milestone multiplies the learning rate by.")
      .Above(0)
      .Between(0, 1)
      .When("schedule.name", {"multistep"});
}

}  // namespace

void LearningKeys(std::vector<Key>& keys) {
  PreferenceKeys(keys);
  LoraKeys(keys);
  OptimizerKeys(keys);
  ScheduleKeys(keys);
}

}  // namespace plimsoll::config
