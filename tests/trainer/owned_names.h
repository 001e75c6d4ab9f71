// A step whose moments, masters, remainders, scales and averages have names that tell nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "graph/program.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The same ones on all meshes.
inline std::string RenamedAs(const std::string& name) {
  return "q" + std::to_string(std::hash<std::string>()(name));
}

inline void RenameOwned(CompiledStep& compiled) {
  for (auto& program : compiled.programs) {
    auto renamed = std::make_shared<graph::Program>(*program);
    for (size_t id = 0; id < program->tensors().size(); ++id) {
      const graph::Tensor& tensor = program->tensors()[id];
      if (tensor.owner) renamed->Rename(static_cast<graph::TensorId>(id), RenamedAs(tensor.name));
    }
    program = std::move(renamed);
  }
}

}  // namespace plimsoll::trainer
