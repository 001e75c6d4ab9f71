// The preparation of a trained model's pictures, from its run's data. For a preparation stored in
// the folder of the weights, see data/images/preprocessor_config.h.
#pragma once

#include <optional>
#include <string>

#include "data/images/image_preparation.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/save_and_resume/run_record.h"

namespace plimsoll::trainer {

// Whether the model classifies pictures.
bool ClassifiesPictures(const models::Model& model);
// Whether the model classifies each pixel of pictures, or each voxel of volumes.
bool SegmentsPictures(const models::Model& model);

// The data settings of the run that wrote a snapshot, from the snapshot's record.
config::RunConfig RecordedData(const RunRecord& record, const std::string& snapshot);

// Reads the configuration's data to find its picture preparation. nullopt if the data has no
// pictures. Throws a UserError if the data cannot be read.
std::optional<data::ImagePreparation> PreparationBy(const config::RunConfig& config,
                                                    const models::Model& model);

}  // namespace plimsoll::trainer
