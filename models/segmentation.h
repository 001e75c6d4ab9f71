// What models of segmentation have in common: a class for each pixel. Pixels of images and voxels
// of volumes are alike here.
#pragma once

#include <vector>

#include "base/settings.h"
#include "models/layers.h"
#include "ops/loss/dice.h"

namespace plimsoll::models {

// logits[B,…,K] of the pixels. Head::kLoss reads the input "labels", i32[B,…] (negative: the pixel
// counts for nothing), and its loss is that of ops/loss/dice.h, a mean over the samples. Outside of
// training also the logits, and a metric: the confusion of all pixels, with "dice"
// (models/segmentation_scores.h).
Model::Outputs SegmentationHead(Layers& g, graph::Value logits, Head head,
                                const ops::DiceOptions& options);

// classes, and what the loss is made of.
std::vector<Setting> SegmentationSettings();
ops::DiceOptions SegmentationOptionsOf(const Settings& settings);

}  // namespace plimsoll::models
