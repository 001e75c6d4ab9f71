// The schema of study files: one row per key. It drives parsing, suggestions and the reference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "studies/study.h"
#include "trainer/config/yaml_tree.h"

namespace plimsoll::studies {

struct StudyKey {
  std::string path;  // "measure.warmup"
  std::string type;  // for the reference
  std::string default_text;
  std::string doc;  // one sentence, Markdown
  // Checks and stores the value; `origin` is the place of the key.
  std::function<void(Study&, const config::Tree& value, const std::string& origin)> read;
};

const std::vector<StudyKey>& StudyKeys();

}  // namespace plimsoll::studies
