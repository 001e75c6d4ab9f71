// predictions.json in a folder of predictions: whose they are, so that none is taken for another
// model's.
#pragma once

#include <string>
#include <vector>

#include "trainer/snapshot/trained_model.h"

namespace plimsoll::trainer {

class PredictionRecord {
 public:
  // UserError (--to) when the folder holds a file of `names`, or predictions, that these weights
  // have not made, unless `overwrite`. Writes nothing.
  PredictionRecord(const std::string& folder, const TrainedModel& trained,
                   const std::vector<std::string>& names, bool overwrite);

  // The file of that name is these weights' from now on: call it before the file is written.
  void Add(const std::string& name);

 private:
  void Write() const;

  std::string path_, model_, weights_, checksum_;
  std::vector<std::string> files_;  // sorted
};

}  // namespace plimsoll::trainer
