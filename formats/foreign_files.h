// Weights and tokenizers in forms of other programs, known by what files contain: what they are,
// and how they become files that are read here.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "formats/json.h"

namespace plimsoll::formats {

// Of a file: "is …; …", what it is and what to do. nullopt: none of these forms. Weights: PyTorch's
// pickles (torch.save, alone or in a zip archive), GGUF and its predecessors, llama2.c's.
// Tokenizers: SentencePiece's, tiktoken's (Llama 3), llama2.c's. Also a pointer of Git LFS in place
// of a file.
std::optional<std::string> DescribeForeignFile(const std::string& path);

// Throws UserError where `path`, a folder that should hold a model in Hugging Face's form, holds
// weights in one of these forms instead, or is such a file; also for safetensors with Meta's names.
void RefuseForeignModel(const std::string& path);

// Of the names of a file's tensors: "has …; …", whose they are instead of transformers' and what to
// do. nullopt: none of these: Meta's, timm's, a compiled or distributed module's, a PeftModel's.
std::optional<std::string> DescribeForeignNames(std::span<const std::string> names);

// Throws UserError where config.json is that of a model of timm, or of a ResNet of transformers.
void RefuseForeignConfig(const JsonObject& config);

// Throws UserError where `path` is a file in one of these forms.
void RefuseForeignFile(const std::string& path);

}  // namespace plimsoll::formats
