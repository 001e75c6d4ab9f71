#include "trainer/config/section_examples.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"

namespace plimsoll::config {

std::string SectionExample(const std::string& section) {
  static const std::map<std::string, std::string> examples = {
      {"model",
       R"(model: {family: llama, layers: 16, width: 2048, heads: 32, kv_heads: 8, vocab: 32000, sequence: 2048})"},
      {"data",
       R"(data: {train: "corpus/*.txt", format: text, tokenizer: byte, eval_fraction: 0.01})"},
      {"train",
       R"(train: {steps: 5000, micro_batch: 8, global_batch: 64, eval_every: 100, early_stop: 5})"},
      {"preference", R"(data: {train: pairs.jsonl, tokenizer: byte}
preference: {loss: dpo, beta: 0.1})"},
      {"lora", R"(lora: {rank: 16, alpha: 32, targets: [q_proj, v_proj]})"},
      {"optimizer", R"(optimizer: {name: adamw, lr: 6e-4, weight_decay: 0.1, state_dtype: bf16})"},
      {"schedule", R"(schedule: {name: wsd, warmup: 100, decay_fraction: 0.2})"},
      {"amp", R"(amp: {dtype: bf16, grad_dtype: bf16})"},
      {"checkpointing",
       R"(checkpointing: {policy: selective, recompute: [norms, activations, "*.mlp.fc"]})"},
      {"memory", R"(memory: {budget: 24GiB, host_budget: 64GiB, weights: auto})"},
      {"parallel", R"(parallel: {data: 2, tensor: 2, zero: 1})"},
      {"run", R"(run: {dir: runs/first, name: first try, tags: [baseline]})"},
      {"log", R"(log: {tensorboard: false, mlflow: true})"},
      {"save", R"(save: {every: 500, keep: 3, best: true, async: true})"},
      {"divergence", R"(divergence: {action: skip, spike: 6})"},
      {"sample", R"(sample: {prompt: Once upon a time, tokens: 100, temperature: 0.7})"},
      {"debug", R"(debug: {find_nan: true})"},
  };
  const auto found = examples.find(section);
  if (found == examples.end()) throw InternalError(fmt::format("{}: no example", section));
  return found->second;
}

}  // namespace plimsoll::config
