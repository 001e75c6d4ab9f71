// What a trained model says of single inputs: the class of a picture or a text, the classes of a
// volume's voxels, the words behind masks.
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

// `plimsoll predict`. The folder holds a run (config.yaml), a snapshot or a Hugging Face
// checkpoint.
struct PredictCommand {
  std::string folder;
  WeightChoice choice;                 // of the run's weights
  std::vector<std::string> sets;       // overrides of the run's configuration
  std::vector<std::string> inputs;     // files and folders: pictures, volumes, texts of a line each
  std::vector<std::string> texts;      // instead of files
  std::string run_file;                // of a Hugging Face checkpoint: how its data is prepared
  std::string tokenizer;               // of texts; empty: the run's, or the folder's own
  std::string dtype = "fp32";          // of weights and activations: fp32, bf16, fp16
  std::optional<int64_t> batch = {};   // inputs at a time; default: the run's micro-batch
  int64_t top = 3;                     // candidates that are shown
  std::string to;                      // of volumes: the folder of their segmentations
  bool overwrite = false;              // other weights' there are replaced
  std::optional<double> overlap = {};  // of a volume's windows, a part of their sides; default:
                                       // that of the run's evaluations
  // Of pictures: the file to which the features that the classifier's last layer reads are written,
  // f32[pictures, D] in NumPy's form (formats/npy.h), in the order of the lines. They are kept in
  // memory until the end.
  std::string features = {};
  // Of volumes: takes the place of the run's memory.host_budget ("8GiB"); empty: doesn't.
  std::string host_budget = {};
  bool json = false;  // a JSON object a line instead of sentences
};
// Prints a line for each input to stdout, in order, and what it took to stderr; of several pictures
// also the share of each class, of volumes with labels their mean Dice. Of several files of
// pictures or volumes those that cannot be read get a warning each, and a UserError at the end
// counts them. UserError when model or input cannot be read, when the model continues texts, or
// when its numbers are none (NotFinite).
void RunPredict(const PredictCommand& command);

// The parts of the command, by what the model reads and says. Each compiles the forward program
// that it needs, prints the predictions, and returns how many inputs there were.

// A model in memory, compiled for predictions.
class Predictor {
 public:
  // `rows`: inputs at a time. Classifiers run the program that evaluations run; with `masks`, the
  // logits of one position of each row are wanted.
  Predictor(const TrainedModel& trained, const PredictCommand& command, int64_t rows, bool masks);

  Session& session() { return *session_; }
  int64_t rows() const { return rows_; }
  int64_t sequence() const { return session_->compiled().options.sequence; }

  // The slots of a classifier's program are filled: [rows, classes], of pixels [rows, …, classes].
  std::vector<float> ClassLogits();
  // Of the same inputs, after ClassLogits(): [rows, D]. Where the command asks for features.
  std::vector<float> ClassFeatures() { return session_->Read<float>(kClassFeatures); }
  // The logits program's inputs are written: [rows, vocabulary].
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

// Inputs at a time where there are that many.
int64_t RowsFor(const PredictCommand& command, const TrainedModel& trained, int64_t inputs);

// The configuration that says how the model's inputs are prepared, if there is one: the run's, or
// what a snapshot alone records of it.
std::optional<config::RunConfig> DataConfigOf(const PredictCommand& command,
                                              const TrainedModel& trained);

struct Predicted {
  int64_t inputs = 0;
  InferenceMemory memory = {};
  int64_t host = 0;  // of volumes: bytes of the host, in addition to the arena (volume_needs.h)
  std::string problem = {};  // with inputs that were left out; empty: there were none
};
Predicted PredictPictures(const PredictCommand& command, const TrainedModel& trained);
Predicted PredictVolumes(const PredictCommand& command, const TrainedModel& trained);
Predicted PredictTexts(const PredictCommand& command, const TrainedModel& trained);
Predicted FillMasks(const PredictCommand& command, TrainedModel trained);

struct Candidate {
  int64_t number = 0;  // class or token
  double probability = 0;
};
// The `count` likeliest of the softmax of the logits, of equal ones the smaller number first.
std::vector<Candidate> Likeliest(std::span<const float> logits, int64_t count);
// The same of the sigmoid of each.
std::vector<Candidate> LikeliestLabels(std::span<const float> logits, int64_t count);

// "97.3 %"
std::string PercentText(double probability);

// The names of the model's classes: those that the run's file gives, or those that came with the
// weights; empty: there are none.
std::vector<std::string> ClassNamesOf(const TrainedModel& trained);
// One of these, or the number of a class that has none.
std::string ClassName(const std::vector<std::string>& names, int64_t number);

// Where an input comes from: a file, and the number of a picture or a line in it.
struct InputPlace {
  std::string file;
  const char* unit = "index";  // of the number: "index" or "line"
  int64_t number = -1;         // -1: the file is the input
};
// The prediction for an input, of the logits of a classifier, as a line for people or for programs.
std::string PredictionLine(const InputPlace& place, std::span<const float> logits,
                           models::ProblemType problem, const std::vector<std::string>& names,
                           const PredictCommand& command);
// The classes that the prediction says: the likeliest; of several labels those that are likelier
// than not, by their likelihood; of a number none.
std::vector<int64_t> PredictedClasses(std::span<const float> logits, models::ProblemType problem);

}  // namespace plimsoll::trainer
