// predictions.json in a folder of predictions: whose they are, so that none is taken for another
// model's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {

class PredictionRecord {
 public:
  // Files to write by their names, each with the absolute path of what it is predicted from.
  using Inputs = std::map<std::string, std::string>;

  // UserError (--to) when the folder holds one of the files, or predictions, that these weights
  // have not made, or a prediction of another input of that name, unless `overwrite`. Writes
  // nothing.
  PredictionRecord(const std::string& folder, const TrainedModel& trained, const Inputs& inputs,
                   bool overwrite);

  // The file of that name is these weights' from now on: call it before the file is written. The
  // first call removes the predictions of other weights that are replaced.
  void Add(const std::string& name);

 private:
  void Write() const;

  std::string folder_, path_, model_, weights_, checksum_;
  Inputs inputs_;                      // of this call
  Inputs files_;                       // that these weights have made
  std::vector<std::string> replaced_;  // of other weights
};

}  // namespace plimsoll::trainer
