#include "trainer/config/suggest.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/spelling.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

// These keys' names in other training programs.
const std::map<std::string, std::string>& ForeignNames() {
  static const std::map<std::string, std::string> names = {
      {"n_layer", "model.layers"},
      {"num_layers", "model.layers"},
      {"num_hidden_layers", "model.layers"},
      {"n_embd", "model.width"},
      {"hidden_size", "model.width"},
      {"d_model", "model.width"},
      {"n_head", "model.heads"},
      {"num_attention_heads", "model.heads"},
      {"num_key_value_heads", "model.kv_heads"},
      {"head_dim", "model.head_width"},
      {"intermediate_size", "model.ffn_width"},
      {"vocab_size", "model.vocab"},
      {"block_size", "model.sequence"},
      {"seq_len", "model.sequence"},
      {"sequence_length", "model.sequence"},
      {"max_position_embeddings", "model.max_sequence"},
      {"tie_word_embeddings", "model.tied"},
      {"rms_norm_eps", "model.norm_eps"},
      {"initializer_range", "model.init_std"},
      {"batch_size", "train.micro_batch"},
      {"max_steps", "train.steps"},
      {"max_iters", "train.steps"},
      {"gradient_accumulation_steps", "train.accumulate"},
      {"learning_rate", "optimizer.lr"},
      {"grad_clip", "optimizer.clip_grad_norm"},
      {"max_grad_norm", "optimizer.clip_grad_norm"},
      {"warmup_steps", "schedule.warmup"},
      {"warmup_iters", "schedule.warmup"},
      {"output_dir", "run.dir"},
      {"out_dir", "run.dir"},
  };
  return names;
}

std::string LeafOf(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

}  // namespace

std::string NearestKey(const std::string& path) {
  constexpr size_t kLongest = 80;  // longer than any misspelt key
  if (path.size() > kLongest) return "";
  const std::string leaf = LeafOf(path);
  const auto foreign = ForeignNames().find(leaf);
  if (foreign != ForeignNames().end()) return foreign->second;

  // At most a third of the word may be wrong. A correct key name in another section counts as one
  // mistake; a misspelt one counts as one more than its spelling mistakes.
  std::string best;
  int best_distance = static_cast<int>(std::max<size_t>(leaf.size() / 3, 1)) + 1;
  const auto consider = [&](const std::string& candidate, int distance) {
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  };
  for (const Key& key : Schema()) {
    consider(key.path, EditDistance(path, key.path));
    consider(key.path, 1 + EditDistance(leaf, LeafOf(key.path)));
  }
  if (path == leaf) {
    for (const SectionInfo& section : Sections())
      consider(section.name, EditDistance(path, section.name));
    consider("extends", EditDistance(path, "extends"));
  }
  return best;
}

}  // namespace plimsoll::config
