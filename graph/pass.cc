#include "graph/pass.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "graph/text.h"
#include "graph/verifier.h"

namespace plimsoll::graph {
namespace {

class Hasher {
 public:
  template <typename T>
  void Add(const T& value) {
    hash_ = (hash_ ^ std::hash<T>()(value)) * size_t{0x9E3779B97F4A7C15};
    hash_ ^= hash_ >> 32;
  }
  void Add(const std::vector<TensorId>& ids) {
    Add(ids.size());
    for (TensorId id : ids) Add(id);
  }
  void Add(const Attributes& attributes) {
    Add(attributes.entries().size());
    for (const auto& [name, value] : attributes.entries()) {
      Add(name);
      Add(value.index());
      std::visit([this](const auto& held) { Add(held); }, value);
    }
  }
  void Add(const Tensor& tensor) {
    Add(tensor.name);
    Add(tensor.type.dtype);
    Add(tensor.type.shape.rank());
    for (int64_t dim : tensor.type.shape.dims()) Add(dim);
    Add(tensor.role);
    Add(tensor.place);
    Add(tensor.persistent);
    Add(tensor.retention);
    Add(tensor.alias.has_value());
    if (!tensor.alias) return;
    Add(tensor.alias->base);
    Add(tensor.alias->byte_offset);
    Add(tensor.alias->part_along);
  }
  void Add(const Node& node) {
    Add(node.op);
    Add(node.attributes);
    Add(node.inputs);
    Add(node.outputs);
    Add(node.workspace);
    Add(node.phase);
    Add(node.micro_step);
    Add(node.scope);
    Add(node.made_by);
  }
  size_t hash() const { return hash_; }

 private:
  size_t hash_ = 0;
};

// A hash of the tensors and nodes with all their members, but not of the program's name. It differs
// between different programs, except for collisions; comparable only within one process.
size_t Fingerprint(const Program& program) {
  Hasher hasher;
  for (const Tensor& tensor : program.tensors()) hasher.Add(tensor);
  for (const Node& node : program.nodes()) hasher.Add(node);
  return hasher.hash();
}

void VerifyAfter(const Program& program, std::string_view culprit) {
  try {
    Verify(program);
  } catch (const InternalError& error) {
    throw InternalError("program '" + program.name() + "' broken by pass '" + std::string(culprit) +
                        "': " + error.what());
  }
}

}  // namespace

std::vector<PassReport> PassPipeline::Run(Program& program) const {
  std::vector<PassReport> reports;
  if (verify_) VerifyAfter(program, "build");
  Dump(program, 0, "build");
  for (size_t i = 0; i < passes_.size(); ++i) {
    Pass& pass = *passes_[i];
    const size_t before = verify_ ? Fingerprint(program) : 0;
    PassResult result = pass.Run(program);
    if (result.changed) {
      Dump(program, i + 1, pass.name());  // before verifying: a broken program is worth seeing
      if (verify_) VerifyAfter(program, pass.name());
    } else if (verify_ && Fingerprint(program) != before) {
      throw InternalError("program '" + program.name() + "' changed by pass '" +
                          std::string(pass.name()) + "', which says that it did nothing");
    }
    reports.push_back({program.name(), std::string(pass.name()), std::move(result)});
  }
  return reports;
}

void PassPipeline::Dump(const Program& program, size_t number, std::string_view pass) const {
  if (dump_directory_.empty()) return;
  std::error_code ignored;  // if this fails, so does the writing, which reports it
  std::filesystem::create_directories(dump_directory_, ignored);
  char numbered[8];
  std::snprintf(numbered, sizeof(numbered), ".%02zu.", number % 100);
  const std::string path =
      dump_directory_ + "/" + program.name() + numbered + std::string(pass) + ".txt";
  std::ofstream file(path);
  file << ToText(program);
  file.close();
  if (!file) throw UserError(path + ": cannot write the program dump (debug.dump_programs)");
}

}  // namespace plimsoll::graph
