// preprocessor_config.json: the file next to a model's weights in which transformers' image
// processors describe how pictures are prepared.
#pragma once

#include <span>
#include <string>

#include "data/images/image_preparation.h"
#include "formats/key_rules.h"

namespace plimsoll::data {

inline constexpr const char* kPreparationFile = "preprocessor_config.json";

// The rules for the keys of preprocessor_config.json.
std::span<const formats::KeyRule> PreparationKeys();

// Reads a preprocessor_config.json for a model whose images have the size `model`. Supported are
// the processors of ViT, DeiT, BEiT, BiT, CLIP, ConvNeXT and SigLIP, slow and fast ones. If the
// file names no processor, ViT's defaults apply. A UserError names the file and the key: Plimsoll
// does not support the preparation, or it is for images of another size.
ImagePreparation ReadPreparation(const std::string& file, const ImageSize& model);

// The text of a preprocessor_config.json for this preparation.
std::string PreparationText(const ImagePreparation& preparation);

// Writes preprocessor_config.json into a model's folder. An empty text removes an existing file.
void WritePreparation(const std::string& text, const std::string& folder);

}  // namespace plimsoll::data
