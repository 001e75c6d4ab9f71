// The `data` section of a run file to start from: made-up samples, with which it runs as it is, and
// in a comment what names somebody's own.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/model.h"
#include "trainer/propose/choices.h"

namespace plimsoll::trainer {

// The source that fills the model's inputs and has all of these keys of `data`, which somebody
// gives ("data.folder"): `own` if it does, or else one that can make samples up, or any. Empty:
// no source does.
std::string SourceFor(const models::Model& model, std::span<const std::string> keys,
                      const std::string& own);

// Has the source make its samples up, and says what to write instead; nothing where somebody names
// data. `tokenizer`: a folder to name in that; empty: unknown.
void ChooseSampleData(const models::Model& model, const std::string& tokenizer, Choices& choices);

}  // namespace plimsoll::trainer
