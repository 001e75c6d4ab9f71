#include "graph/pass.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "graph/step_shape.h"
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
    Add(tensor.owner.has_value());
    if (tensor.owner) {
      Add(tensor.owner->name);
      Add(tensor.owner->as);
    }
    Add(tensor.merge.has_value());
    if (tensor.merge) {
      Add(tensor.merge->micro_steps);
      Add(tensor.merge->ranks);
    }
    Add(tensor.names_crc.has_value());
    if (tensor.names_crc) Add(*tensor.names_crc);
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

// A hash of the tensors and nodes with all their members, but not of the program's name. Different
// programs have different hashes, except for collisions. Hashes are comparable only within one
// process.
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

// Returns false if the program shows that the fact does not hold. Most facts cannot be checked so.
bool MayHold(Fact fact, const Program& program) {
  switch (fact) {
    case Fact::kDifferentiated:
      // A pipeline stage without trained parameters has only gradients of activations.
      return std::ranges::count(program.tensors(), Role::kGradient, &Tensor::role) > 0 ||
             std::ranges::count(program.nodes(), Phase::kBackward, &Node::phase) > 0;
    case Fact::kUpdated:
      return FirstUpdate(program) < program.nodes().size();
    case Fact::kJoined:
      return std::ranges::any_of(program.nodes(),
                                 [](const Node& node) { return node.micro_step > 0; });
    default:
      return true;
  }
}

// Checks what the pass requires against `facts`, and updates them by what it gives and spoils.
void VerifyContract(const Program& program, const Pass& pass, Facts& facts) {
  const Contract contract = pass.contract();
  for (const Fact fact : contract.spoils) facts.erase(fact);
  facts.insert(contract.gives.begin(), contract.gives.end());
  for (const Fact fact : facts) {
    if (MayHold(fact, program)) continue;
    throw InternalError("program '" + program.name() + "' is not " + std::string(Name(fact)) +
                        " after pass '" + std::string(pass.name()) + "', whose contract says " +
                        (contract.gives.contains(fact) ? "that it is" : "nothing of that"));
  }
}

}  // namespace

Facts PassPipeline::Check(Facts facts) const {
  struct Spoiled {
    std::string_view by, of;  // the passes that spoiled and gave the fact
  };
  std::map<Fact, std::string_view> given;
  std::map<Fact, Spoiled> spoiled;
  for (const std::unique_ptr<Pass>& pass : passes_) {
    const Contract contract = pass->contract();
    const std::string name = "pass '" + std::string(pass->name()) + "' ";
    for (const Fact fact : contract.needs) {
      if (facts.contains(fact)) continue;
      const auto lost = spoiled.find(fact);
      throw InternalError(name + "needs what is " + std::string(Name(fact)) + ", which " +
                          (lost == spoiled.end()
                               ? "no pass before it gives"
                               : "'" + std::string(lost->second.by) + "' before it spoils"));
    }
    for (const Fact fact : contract.spoils) {
      if (facts.erase(fact) > 0) spoiled[fact] = {pass->name(), given[fact]};
    }
    for (const Fact fact : contract.gives) {
      facts.insert(fact);
      given[fact] = pass->name();
      spoiled.erase(fact);
    }
  }
  if (spoiled.empty()) return facts;
  const auto& [fact, of] = *spoiled.begin();
  throw InternalError("pass '" + std::string(of.by) + "' spoils what is " +
                      std::string(Name(fact)) +
                      (of.of.empty() ? "" : " by '" + std::string(of.of) + "'") +
                      ", and no pass after it makes it so again");
}

std::vector<PassReport> PassPipeline::Run(Program& program) const {
  std::vector<PassReport> reports;
  Facts facts;
  if (verify_) VerifyAfter(program, "build");
  Dump(program, 0, "build");
  for (size_t i = 0; i < passes_.size(); ++i) {
    Pass& pass = *passes_[i];
    const size_t before = verify_ ? Fingerprint(program) : 0;
    PassResult result = pass.Run(program);
    if (result.changed) {
      Dump(program, i + 1, pass.name());  // before verifying, so that a broken program is dumped,
                                          // too
      if (verify_) VerifyAfter(program, pass.name());
    } else if (verify_ && Fingerprint(program) != before) {
      throw InternalError("program '" + program.name() + "' changed by pass '" +
                          std::string(pass.name()) + "', which says that it did nothing");
    }
    if (verify_) VerifyContract(program, pass, facts);
    reports.push_back({program.name(), std::string(pass.name()), std::move(result)});
    if (pass.name() == stop_after_) break;
  }
  return reports;
}

void PassPipeline::Dump(const Program& program, size_t number, std::string_view pass) const {
  if (dump_directory_.empty()) return;
  std::error_code ignored;  // if this fails, writing fails, too, and reports it
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
