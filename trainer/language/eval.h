// Evaluation of a trained model on data that it was not trained on: loss, perplexity and other
// metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/save_and_resume/weight_source.h"

namespace plimsoll::trainer {

// `plimsoll eval`. The folder holds a run (config.yaml), a snapshot or a Hugging Face checkpoint.
struct EvalCommand {
  std::string folder;
  WeightChoice choice;            // of the run's weights
  std::vector<std::string> sets;  // overrides of the run's configuration
  // Files to evaluate on, in full: token files (*.bin), else text. Empty: the run's held-out data,
  // as much of it as the run's own evaluations took.
  std::vector<std::string> data;
  // Of a Hugging Face checkpoint: a run file whose held-out data is evaluated.
  std::string run_file;
  std::string tokenizer;         // of `data`; empty: the run's, or the folder's own
  std::string dtype = "fp32";    // of weights and activations: fp32, bf16, fp16
  std::optional<int64_t> batch;  // sequences at a time; default: the run's micro-batch
  bool json = false;             // one JSON object instead of sentences
};
// Prints to stdout; progress goes to stderr, on a terminal. UserError when model or data cannot be
// read, when there is nothing to evaluate on, or when the loss is not finite (NotFinite).
void RunEval(const EvalCommand& command);

// What a confusion matrix says, for people. `counts`: C rows of C numbers, [label][prediction].
// `names`: of the classes; empty: they have numbers. A matrix of at most this many classes is shown
// whole, with the recall of each label and the precision of each prediction; of a larger one, the
// classes of the lowest recall and the most frequent confusions. Lines that each end with a
// newline.
inline constexpr size_t kMostShownClasses = 12;
std::string ConfusionText(std::span<const double> counts, const std::vector<std::string>& names);

}  // namespace plimsoll::trainer
