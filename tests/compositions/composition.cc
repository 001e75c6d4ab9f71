#include "tests/compositions/composition.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace plimsoll {
namespace {

constexpr const char* kMachine =
    "device: cpu\nmemory: {calibrate: false, summary: short}\n"
    "log: {csv: false, tensorboard: false, report: false}\n";

class Generator {
 public:
  explicit Generator(uint64_t seed)
      : random_(seed),
        packing_(std::vector<std::string>{"concatenate", "best_fit", "none"}[seed % 3]) {}

  Composition Draw() {
    Composition c;
    ranks_ = c.ranks = Chance(0.15) ? 2 : 1;
    family_ = Pick({"gpt2", "gpt2", "llama", "llama", "qwen2", "qwen3", "mistral", "phi3", "gemma2",
                    "gemma3_text", "bert", "vit", "resnet", "unet", "adversarial", "dcgan"});
    c.program = family_ == "adversarial" ? "docs/examples/plimsoll_with_examples" : "app/plimsoll";
    accumulate_ = Number(1, 3);
    prompts_ = Language() && Chance(0.25);
    if (prompts_) c.files["prompts.jsonl"] = Prompts();
    pairs_ = Language() && !prompts_ && Chance(0.25);
    if (pairs_) {
      c.files["pairs.jsonl"] = Pairs(26);  // of which a step reads up to 18 rows
      c.files["held_out.jsonl"] = Pairs(8);
    }
    if (family_ == "bert" && Chance(0.6)) {
      problem_ = Pick({"single_label_classification", "multi_label_classification", "regression"});
      c.files["vocab.txt"] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n";
      c.files["texts.jsonl"] = LabelledTexts();
    }
    std::string model = Model();
    if ((Language() && Chance(0.15)) || (family_ == "vit" && Chance(0.4))) {
      c.base = model + BaseData() + "train: {steps: 2, micro_batch: 1, eval_every: 0}\n" + kMachine;
      model = Adapted();
    } else if (Chance(0.2)) {
      frozen_ = Frozen();
    }
    const bool linear = Language() || family_ == "bert" || family_ == "vit";
    muon_ = linear && c.base.empty() && Chance(0.15);
    c.yaml =
        model + Data() + Preference() + Train() + Optimizer() + Types() + Parallel() + kMachine;
    Places(c);
    Activations(c);
    Order(c);
    Set(c, "train.threads", std::to_string(Number(1, 2)));
    if (Chance(0.3)) Set(c, "debug.poison", "true");
    if (Chance(0.5)) Set(c, "save.async", "true");
    Stages(c);
    return c;
  }

 private:
  bool Chance(double p) { return std::uniform_real_distribution<double>()(random_) < p; }
  int Number(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  std::string Pick(const std::vector<std::string>& all) { return all[random_() % all.size()]; }

  bool Gemma() const { return family_ == "gemma2" || family_ == "gemma3_text"; }
  bool LlamaLike() const {
    return family_ == "llama" || family_ == "qwen2" || family_ == "qwen3" || family_ == "mistral" ||
           family_ == "phi3" || Gemma();
  }
  bool Language() const { return family_ == "gpt2" || LlamaLike(); }

  std::string Model() {
    if (family_ == "adversarial") {
      return fmt::format("model: {{family: adversarial, width: {}, critic_updates: {}}}\n",
                         Number(8, 40), Number(1, 2));
    }
    if (family_ == "dcgan") {
      return fmt::format(
          "model: {{family: dcgan, image_size: {}, channels: 2, latent: 5, generator_features: 4, "
          "discriminator_features: 4, discriminator_updates: {}}}\n",
          Pick({"8", "16"}), Number(1, 2));
    }
    if (family_ == "resnet") {
      return "model: {family: resnet, depth: 8, image_size: 16, classes: 5}\n";
    }
    if (family_ == "unet") {
      return fmt::format(
          "model: {{family: unet, image_depth: {}, image_height: 16, image_width: 8, levels: {}, "
          "features: 4, classes: 3}}\n",
          Pick({"0", "8"}), Number(2, 3));
    }
    // Weights of the wider ones are large enough to leave the device.
    const bool wide = Chance(0.4);
    layers_ = Number(2, 4);
    std::string text = fmt::format("model: {{family: {}, layers: {}, width: {}, heads: {}", family_,
                                   layers_, wide ? 192 : 32, wide ? 4 : 2);
    if (family_ == "vit") return text + ", image_size: 16, patch: 4, classes: 5}\n";
    text += ", sequence: 16";
    if (!problem_.empty()) {
      const int classes = problem_ == "regression" ? 1 : 3;
      text +=
          fmt::format(", task: classification, problem_type: {}, classes: {}", problem_, classes);
    } else {
      text += fmt::format(", vocab: {}", wide ? 512 : prompts_ || pairs_ ? 256 : 96);
    }
    if (LlamaLike()) {
      text += fmt::format(", kv_heads: 2, ffn_width: {}", wide ? 512 : 80);
    }
    if (family_ == "qwen3") text += ", head_width: 24";
    if ((family_ == "mistral" || family_ == "phi3") && Chance(0.5)) text += ", window: 5";
    if (family_ == "phi3" && Chance(0.5)) text += ", rotary_width: 6";
    if (family_ == "llama" && Chance(0.2)) {
      text += ", rope_type: yarn, rope_factor: 4, rope_original_sequence: 8";
    }
    if (Gemma()) {
      text += fmt::format(", window: {}, window_pattern: {}, final_logit_softcapping: {}",
                          Pick({"5", "16"}), Pick({"2", "3"}), Pick({"0", "3"}));
    }
    if (family_ == "gpt2" || family_ == "bert") {
      text += fmt::format(", dropout: {}", Pick({"0", "0.1"}));
    }
    if (Language()) {
      tied_ = Pick({"true", "false"}) == "true";
      text += fmt::format(", tied: {}", tied_);
    }
    return text + "}\n";
  }

  // Adapters over a base, with modules that are trained in full: some that are named, and the head
  // of a classifier, which other classes make start afresh.
  std::string Adapted() {
    const std::string adapters =
        fmt::format("rank: {}, dropout: {}", Number(1, 8), Pick({"0", "0.1"}));
    if (family_ == "vit") {
      return fmt::format("model: {{classes: {}}}\nlora: {{{}}}\n", Pick({"5", "7", "7"}), adapters);
    }
    const std::string saved = family_ == "gpt2" ? Pick({"[]", "[ln_f, wpe]", "[h.0.mlp.c_fc]"})
                                                : Pick({"[]", "[norm]", "[layers.0.mlp.*_proj]"});
    return fmt::format("model: {{sequence: 16}}\nlora: {{{}, modules_to_save: {}}}\n", adapters,
                       saved);
  }

  // Parameters that stay as they are; empty: none.
  std::string Frozen() {
    if (family_ == "resnet") return "stem.*";
    if (family_ == "unet") return "encoder.block.0.*";
    if (family_ == "adversarial" || family_ == "dcgan") return "";
    return Pick({"block.0.*", "embed.*", "*norm*"});
  }

  // As windows, each prompt and each completion is as long as a sample, so that every other one has
  // no target: steps of a single sample make no update. Packed, some prompts alone are as long.
  std::string Prompts() {
    const bool windows = packing_ == "concatenate";
    std::string lines;
    for (size_t i = 0; i < (windows ? 8 : 20); ++i) {
      const char letter = static_cast<char>('a' + i);
      lines += fmt::format(R"({{"prompt": "{}", "completion": "{}"}})",
                           std::string(windows ? 16 : 1 + i * 7 % 18, letter),
                           std::string(windows ? 15 : 1 + i % 5, letter));
      lines += "\n";
    }
    return lines;
  }

  // Some fill a row, some are too long for one, and several of the others share a row.
  std::string Pairs(int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) {
      const char letter = static_cast<char>('a' + i);
      lines += fmt::format(R"({{"prompt": "{}", "chosen": "{}", "rejected": "{}"}})",
                           std::string(1 + i * 5 % 4, letter),
                           std::string(i % 7 == 6 ? 14 : 1 + i % 5, 'x'),
                           std::string(1 + i * 3 % 4, i % 2 == 0 ? 'y' : letter));
      lines += "\n";
    }
    return lines;
  }

  // What is learnt of pairs.
  std::string Preference() {
    if (!pairs_) return "";
    std::string text = fmt::format("preference: {{beta: {}, sft_weight: {}, ", Pick({"0.1", "0.7"}),
                                   Pick({"0", "0.5"}));
    if (Chance(0.3)) return text + "loss: ipo}\n";
    return text + fmt::format("loss: dpo, label_smoothing: {}}}\n", Pick({"0", "0.2"}));
  }

  std::string LabelledTexts() {
    std::string lines;
    for (int i = 0; i < 12; ++i) {
      std::string label = std::to_string(i % 3);
      if (problem_ == "multi_label_classification") {
        label = i % 4 == 0 ? "[]" : fmt::format("[0.0, {}.0, {}.0]", i % 2, i % 3 == 0 ? 1 : 0);
      } else if (problem_ == "regression") {
        label = fmt::format("{}.5", i - 4);
      }
      lines += fmt::format(R"({{"text": "{} {}", "label": {}}})", Pick({"a", "b c", "c"}),
                           Pick({"a a", "b", "c b a"}), label);
      lines += "\n";
    }
    return lines;
  }

  std::string Data() {
    if (family_ == "adversarial") return "data: {source: plane_points, x: 2, y: -1}\n";
    if (family_ == "vit" || family_ == "resnet" || family_ == "dcgan")
      return "data: {source: synthetic_images}\n";
    if (family_ == "unet") return "data: {source: synthetic_volumes}\n";
    if (prompts_) {
      return "data: {train: '{folder}/prompts.jsonl', tokenizer: byte, packing: " + packing_ +
             ", order: consecutive}\n";
    }
    if (pairs_) {
      return fmt::format(
          "data: {{train: '{{folder}}/pairs.jsonl', eval: '{{folder}}/held_out.jsonl', tokenizer: "
          "byte, packing: {}, too_long: {}}}\n",
          Pick({"best_fit", "none"}), Pick({"truncate", "drop"}));
    }
    if (!problem_.empty()) {
      return "data: {source: labelled_text, train: '{folder}/texts.jsonl', tokenizer: "
             "'{folder}/vocab.txt'}\n";
    }
    if (family_ == "bert") return "data: {source: masked_text, synthetic: true}\n";
    return "data: {synthetic: true}\n";
  }

  // Of the model that adapters are for, which learns no preferences.
  std::string BaseData() { return pairs_ ? "data: {synthetic: true}\n" : Data(); }

  std::string Train() {
    return fmt::format(
        "train: {{steps: 6, micro_batch: {}, accumulate: {}, eval_every: {}, log_every: 1, "
        "threads: 1{}}}\n"
        "schedule: {{warmup: 2}}\n",
        Number(1, 3), accumulate_, pairs_ ? 3 : 0,
        frozen_.empty() ? "" : fmt::format(", freeze: [\"{}\"]", frozen_));
  }

  std::string Optimizer() {
    std::string text = "optimizer: {lr: 1e-3";
    if (muon_) {
      text += fmt::format(
          ", name: muon, nesterov: {}, newton_schulz_steps: {}, adjust_lr: {}, state_dtype: {}",
          Pick({"true", "false"}), Number(1, 5), Pick({"original", "match_rms_adamw"}),
          Pick({"fp32", "bf16", "int8"}));
    } else if (Chance(0.3)) {
      text += fmt::format(", name: sgd, momentum: {}", Pick({"0", "0.9"}));
    } else if (Chance(0.3)) {
      text += ", state_dtype: " + Pick({"bf16", "int8"});
    }
    const bool clips = Chance(0.3);
    waits_for_all_ = waits_for_all_ || clips;
    text += fmt::format(", clip_grad_norm: {}", clips ? 1 : 0);
    averages_ = Chance(0.2);
    if (averages_) text += ", ema: 0.9";
    return text + "}\n";
  }

  std::string Types() {
    const std::string type = Pick({"fp32", "bf16", "fp16"});
    std::string text = "amp: {dtype: " + type;
    if (type == "bf16" && Chance(0.4)) text += ", master_weights: false";
    waits_for_all_ = waits_for_all_ || type == "fp16";
    // The first steps overflow, and are skipped.
    if (type == "fp16" && Chance(0.5)) text += ", init_scale: 524288";
    if (Chance(0.2)) text += ", grad_dtype: bf16";
    if (type != "fp32" && Chance(0.3)) {
      text += ", fp8: {recipe: " + Pick({"current", "delayed, window: 2"}) +
              ", gradients: " + Pick({"e5m2", "e4m3"}) +
              ", pre_activations: " + Pick({"true", "false"}) + ", skip_ends: 0}";
      delayed_ = text.find("delayed") != text.npos;
    }
    return text + "}\n";
  }

  std::string Parallel() {
    if (ranks_ == 1) return "";
    if (Language() && !muon_ && Chance(0.3)) {
      return "parallel: {tensor: 2, sequence: " + Pick({"true", "false"}) + "}\n";
    }
    zero_ = Number(0, 3);
    return fmt::format("parallel: {{zero: {}}}\n", zero_);
  }

  void Set(Composition& c, const std::string& key, const std::string& value) {
    c.techniques.push_back(key + "=" + value);
  }

  // Where parameters, gradients and state live.
  void Places(Composition& c) {
    if (Chance(0.5)) c.budget = std::uniform_real_distribution<double>(0, 1)(random_);
    const std::vector<std::string> values = c.budget >= 0
                                                ? std::vector<std::string>{"device", "host", "auto"}
                                                : std::vector<std::string>{"device", "host"};
    const std::string state = Pick(values), weights = Pick(values), gradients = Pick(values);
    const bool carried = accumulate_ > 1 || gradients == "auto";  // else there is no such choice
    Set(c, "optimizer.place", state);
    Set(c, "memory.weights", weights);
    if (carried) Set(c, "memory.gradients", gradients);
    if (layers_ > 0 && (state == "host" || weights == "host") && Chance(0.3)) {
      Set(c, "memory.host_blocks", std::to_string(Number(1, layers_)));
    }
  }

  // What becomes of activations.
  void Activations(Composition& c) {
    const std::string policy =
        c.budget >= 0 && Chance(0.8) ? "auto" : Pick({"none", "block", "every", "selective"});
    Set(c, "checkpointing.policy", policy);
    if (policy == "every") Set(c, "checkpointing.every", "2");
    if (!Chance(0.4)) return;
    const std::string blocks = Pick({"[\"*\"]", "[\"*block.*\"]"});
    // A pattern that matches nothing that is kept is refused, and this model's blocks keep nothing.
    // Two blocks are recomputed at once.
    const bool one_part = layers_ > 0 && layers_ <= 2;
    const bool keeps_none = policy == "every" && (family_ == "adversarial" || one_part);
    Set(c, "checkpointing.offload", keeps_none ? "[\"*\"]" : blocks);
  }

  // When micro-steps and updates run.
  void Order(Composition& c) {
    const auto choose = [&](const char* key, bool works) {
      const bool open = c.budget >= 0 && Chance(0.4);
      if (Chance(0.4) && (open || works)) Set(c, key, open ? "auto" : "true");
    };
    choose("train.blocks_first", accumulate_ > 1);
    choose("optimizer.in_backward", !waits_for_all_);
  }

  // Stages of a pipeline, in place of the techniques that they refuse. Not of a model whose
  // embeddings are its head: two stages add up its gradient in another order than one rank.
  void Stages(Composition& c) {
    const bool bert_head = family_ == "bert" && problem_.empty();  // its table is the embedding's
    const bool refused = zero_ > 1 || layers_ < 2 || tied_ || bert_head || pairs_ || muon_ ||
                         averages_ || delayed_ || !c.base.empty() || !frozen_.empty();
    if (refused || !Chance(0.6)) return;
    c.budget = -1;
    c.stages = Number(2, ranks_ == 1 ? std::min(layers_, 3) : 2);
    std::erase_if(c.techniques, [](const std::string& set) {
      return set.starts_with("optimizer.") || set.starts_with("memory.") ||
             set.starts_with("checkpointing.") || set.starts_with("train.blocks_first") ||
             set.starts_with("save.async");
    });
    Set(c, "checkpointing.policy", Pick({"none", "block", "every", "selective"}));
    Set(c, "parallel.pipeline", std::to_string(c.stages));
  }

  std::mt19937_64 random_;
  std::string family_;
  bool prompts_ = false;  // the data are prompts with completions
  bool pairs_ = false;    // the data are pairs of answers
  std::string packing_;   // of these
  std::string problem_;   // of a classifier of texts; empty: the model is none
  std::string frozen_;    // a pattern of parameters
  bool muon_ = false;     // the optimizer, which needs whole matrices
  bool tied_ = false;     // the head has the embeddings' table
  bool averages_ = false;
  bool delayed_ = false;  // scales of 8-bit products
  int ranks_ = 1, zero_ = 0, accumulate_ = 1, layers_ = 0;
  bool waits_for_all_ = false;  // updates wait until all gradients are known
};

}  // namespace

Composition Draw(uint64_t seed) { return Generator(seed).Draw(); }

}  // namespace plimsoll
