// `plimsoll generate` of models that make images of noise, such as a DCGAN.
#pragma once

#include <cstdint>

#include "trainer/language/generate.h"
#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {

// The seed of data::FillNoise for images of that seed. With one seed, a run learns from other noise
// than that of the images that are made with it later.
uint64_t NoiseSeed(int64_t seed);

// Writes PNG files, FOLDER/000001.png and so on: grey of models with one channel, colours of three.
// The noise of an image follows from the seed (sample.seed) and the image's number alone; batch
// norms see the images that are made together. Prints progress and a closing line.
// UserErrors: options of models that continue texts, no number or folder, a folder that holds
// anything, images of other channels, numbers that are not finite (NotFinite).
void GenerateImages(const GenerateCommand& command, const TrainedModel& trained);

}  // namespace plimsoll::trainer
