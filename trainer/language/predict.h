// Predicts single inputs with a trained model: the class of a picture or a text, the classes of a
// volume's voxels, the words at masks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/device.h"
#include "trainer/save_and_resume/trained_model.h"
#include "trainer/save_and_resume/weight_source.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// The options of `plimsoll predict`. The folder holds a run (config.yaml), a snapshot or a Hugging
// Face checkpoint.
struct PredictCommand {
  std::string folder;
  WeightChoice choice;            // selects among the run's weights
  std::vector<std::string> sets;  // overrides of the run's configuration
  // Files and folders of pictures, volumes, or texts (one per line).
  std::vector<std::string> inputs;
  std::vector<std::string> texts;  // texts given instead of files
  // For a Hugging Face checkpoint: defines how data is prepared.
  std::string run_file;
  std::string tokenizer;       // tokenizer of texts; empty means the run's or the folder's own
  std::string dtype = "fp32";  // type of weights and activations: fp32, bf16, fp16
  std::optional<int64_t> batch = {};  // number of inputs at a time; default: the run's micro-batch
  int64_t top = 3;                    // number of candidates to print
  std::string to;                     // output folder for the segmentations of volumes
  bool overwrite = false;             // replace files of other weights in `to`
  // For volumes: the overlap of windows as a fraction of their sides; default: that of the run's
  // evaluations.
  std::optional<double> overlap = {};
  // For pictures: the output file for the features that the classifier's last layer reads,
  // f32[pictures, D] in NumPy's format (formats/npy.h), in the order of the lines. Features stay in
  // memory until the end.
  std::string features = {};
  // For volumes: replaces the run's memory.host_budget ("8GiB"). Empty means that the run's value
  // is kept.
  std::string host_budget = {};
  bool json = false;  // print a JSON object per line instead of sentences
};
// Prints a line for each input to stdout, in order, and the time and memory taken to stderr. For
// several pictures also prints the fraction of each class, for volumes with labels their mean Dice.
// If several files of pictures or volumes are given, each unreadable file causes a warning, and a
// UserError at the end gives their number. Throws a UserError if the model or the input cannot be
// read, if the model continues texts, or if results are not finite (NotFinite).
void RunPredict(const PredictCommand& command);

// The parts of the command, for each kind of input and output. Each compiles the forward program
// that it needs, prints the predictions, and returns the number of inputs.

// A model in memory, compiled for predictions.
class Predictor {
 public:
  // `rows` is the number of inputs at a time. Classifiers run the evaluation program. With `masks`,
  // the program computes the logits of one position of each row.
  Predictor(const TrainedModel& trained, const PredictCommand& command, int64_t rows, bool masks);

  Session& session() { return *session_; }
  int64_t rows() const { return rows_; }
  int64_t sequence() const { return session_->compiled().options.sequence; }

  // Runs a classifier; fill its slots (input buffers) first. Returns logits [rows, classes], or
  // [rows, …, classes] for pixels.
  std::vector<float> ClassLogits();
  // The features [rows, D] of the inputs of the last ClassLogits(). Requires that the command asks
  // for features.
  std::vector<float> ClassFeatures() { return session_->Read<float>(kClassFeatures); }
  // Runs the logits program; fill its inputs first. Returns logits [rows, vocabulary].
  std::vector<float> MaskLogits();

 private:
  void RequireFinite(std::span<const float> logits);

  const TrainedModel& trained_;
  std::string dtype_;
  int64_t rows_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<Session> session_;
};

// The number of inputs at a time, at most `inputs`.
int64_t RowsFor(const PredictCommand& command, const TrainedModel& trained, int64_t inputs);

// The configuration that defines how inputs are prepared, if one exists: the run's configuration,
// or the part of it that a snapshot records.
std::optional<config::RunConfig> DataConfigOf(const PredictCommand& command,
                                              const TrainedModel& trained);

struct Predicted {
  int64_t inputs = 0;
  InferenceMemory memory = {};
  // For volumes: bytes of host memory in addition to the arena (volume_needs.h).
  int64_t host = 0;
  std::string problem = {};  // message about inputs that were skipped; empty means none
};
Predicted PredictPictures(const PredictCommand& command, const TrainedModel& trained);
Predicted PredictVolumes(const PredictCommand& command, const TrainedModel& trained);
Predicted PredictTexts(const PredictCommand& command, const TrainedModel& trained);
Predicted FillMasks(const PredictCommand& command, TrainedModel trained);

struct Candidate {
  int64_t number = 0;  // number of a class or a token
  double probability = 0;
};
// The `count` most likely candidates by the softmax of the logits. Among equally likely candidates
// the smaller number comes first.
std::vector<Candidate> Likeliest(std::span<const float> logits, int64_t count);
// Like Likeliest, but by the sigmoid of each logit.
std::vector<Candidate> LikeliestLabels(std::span<const float> logits, int64_t count);

// A probability as text: "97.3 %".
std::string PercentText(double probability);

// The names of the model's classes, from the run's file or from the weights; empty means that the
// classes have no names.
std::vector<std::string> ClassNamesOf(const TrainedModel& trained);
// The class's name in `names`; its number if it has no name.
std::string ClassName(const std::vector<std::string>& names, int64_t number);

// Identifies an input: a file, and the number of a picture or a line in the file.
struct InputPlace {
  std::string file;
  const char* unit = "index";  // unit of `number`: "index" or "line"
  int64_t number = -1;         // -1 means that the complete file is the input
};
// The prediction for an input as a line for people or programs, from a classifier's logits.
std::string PredictionLine(const InputPlace& place, std::span<const float> logits,
                           models::ProblemType problem, const std::vector<std::string>& names,
                           const PredictCommand& command);
// The predicted classes: the most likely class; with several labels per input, the classes with a
// probability above one half, from the most likely on; for a regression, no class.
std::vector<int64_t> PredictedClasses(std::span<const float> logits, models::ProblemType problem);

}  // namespace plimsoll::trainer
