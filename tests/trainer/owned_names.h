// A step whose moments, masters, remainders, scales and averages have names that tell nothing.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "graph/program.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// %q1, %q2, … in the order in which programs come to them.
inline void RenameOwned(CompiledStep& compiled) {
  std::map<std::string, std::string> names;
  for (auto& program : compiled.programs) {
    auto renamed = std::make_shared<graph::Program>(*program);
    for (size_t id = 0; id < program->tensors().size(); ++id) {
      const graph::Tensor& tensor = program->tensors()[id];
      if (!tensor.owner) continue;
      const std::string& name =
          names.try_emplace(tensor.name, "q" + std::to_string(names.size() + 1)).first->second;
      renamed->Rename(static_cast<graph::TensorId>(id), name);
    }
    program = std::move(renamed);
  }
}

}  // namespace plimsoll::trainer
