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

// The options of `plimsoll eval`. The folder holds a run (config.yaml), a snapshot or a Hugging
// Face checkpoint.
struct EvalCommand {
  std::string folder;
  WeightChoice choice;            // selects among the run's weights
  std::vector<std::string> sets;  // overrides of the run's configuration
  // Files to evaluate completely: token files (*.bin), otherwise text. Empty means the run's
  // held-out data, as much as the run's own evaluations use.
  std::vector<std::string> data;
  // For a Hugging Face checkpoint: a run file whose held-out data is evaluated.
  std::string run_file;
  std::string tokenizer;         // tokenizer of `data`; empty means the run's or the folder's own
  std::string dtype = "fp32";    // type of weights and activations: fp32, bf16, fp16
  std::optional<int64_t> batch;  // sequences at a time; default: the run's micro-batch
  bool json = false;             // print one JSON object instead of sentences
};
// Prints to stdout; shows progress on stderr if it is a terminal. Throws a UserError if the model
// or the data cannot be read, if the data is empty, or if the loss is not finite (NotFinite).
void RunEval(const EvalCommand& command);

// Describes a confusion matrix for people. `counts` has C rows of C numbers, [label][prediction].
// `names` are the classes' names; if it is empty, numbers are shown. A matrix of at most
// kMostShownClasses classes is shown completely, with the recall of each label and the precision of
// each prediction. For more classes, lists the classes with the lowest recall and the most frequent
// confusions. Each line ends with a newline.
inline constexpr size_t kMostShownClasses = 12;
std::string ConfusionText(std::span<const double> counts, const std::vector<std::string>& names);

}  // namespace plimsoll::trainer
