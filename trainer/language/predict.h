// What a trained model says of single inputs: the class of a picture or a text, the classes of a
// volume's voxels, the words behind masks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/save_and_resume/weight_source.h"

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
  bool overwrite = false;              // other weights' there are replaced (prediction_record.h)
  std::optional<double> overlap = {};  // of a volume's windows, a part of their sides; default:
                                       // that of the run's evaluations
  // Of pictures: the file to which the features that the classifier's last layer reads are written,
  // f32[pictures, D] in NumPy's form (formats/npy.h), in the order of the lines. They are kept in
  // memory until the end.
  std::string features = {};
  bool json = false;  // a JSON object a line instead of sentences
};
// Prints a line for each input to stdout, in order, and what it took to stderr; of several pictures
// also the share of each class, of volumes with labels their mean Dice. Of several files of
// pictures or volumes those that cannot be read get a warning each, and a UserError at the end
// counts them. UserError when model or input cannot be read, when the model continues texts, or
// when its numbers are none (NotFinite).
void RunPredict(const PredictCommand& command);

}  // namespace plimsoll::trainer
