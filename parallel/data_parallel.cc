#include "parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "ops/collective.h"

namespace plimsoll::parallel {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;

// A tensor that is summed among the ranks.
struct Summand {
  TensorId tensor = kNoTensor;
  int written = 0;  // the last node that writes it
  std::string scope;
};

class Reducer {
 public:
  Reducer(Program& program, const DataParallelOptions& options)
      : program_(program), nodes_(program.nodes()), bucket_bytes_(options.bucket_bytes) {
    update_ = static_cast<int>(
        std::find_if(nodes_.begin(), nodes_.end(),
                     [](const Node& node) { return node.phase == Phase::kUpdate; }) -
        nodes_.begin());
  }

  graph::PassResult Run() {
    const bool trains = update_ < static_cast<int>(nodes_.size());
    std::vector<Summand> gradients = trains ? FindGradients() : std::vector<Summand>{};
    const TensorId loss = program_.Find("loss");
    if (loss == kNoTensor || (gradients.empty() && HasGradients())) {
      return {false, "nothing to sum among ranks"};
    }
    std::stable_sort(gradients.begin(), gradients.end(),
                     [](const Summand& a, const Summand& b) { return a.written < b.written; });
    std::vector<std::vector<Summand>> starting(nodes_.size());  // behind each node
    int64_t bytes = 0, bucket = 0;
    size_t first = 0;  // of the bucket
    int buckets = 0;
    for (size_t i = 0; i < gradients.size(); ++i) {
      bucket += program_.tensor(gradients[i].tensor).bytes();
      if (bucket < bucket_bytes_ && i + 1 < gradients.size()) continue;
      auto& start = starting[static_cast<size_t>(gradients[i].written)];
      start.insert(start.end(), gradients.begin() + static_cast<std::ptrdiff_t>(first),
                   gradients.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      bytes += std::exchange(bucket, 0);
      first = i + 1;
      ++buckets;
    }
    const std::vector<Summand> of_loss = {{loss, LastWriter(loss), ""}};
    for (int n = 0; n <= static_cast<int>(nodes_.size()); ++n) {
      if (n == update_) {
        phase_ = n > 0 ? nodes_[static_cast<size_t>(n) - 1].phase : Phase::kForward;
        Start(of_loss);
        if (trains) phase_ = Phase::kUpdate;
        Finish(gradients);
        Finish(of_loss);
      }
      if (n == static_cast<int>(nodes_.size())) break;
      Node node = nodes_[static_cast<size_t>(n)];
      phase_ = node.phase;
      if (n >= update_) {
        for (TensorId& id : node.inputs) id = Reduced(id);
      }
      result_.push_back(std::move(node));
      Start(starting[static_cast<size_t>(n)]);
    }
    program_.mutable_nodes() = std::move(result_);
    return {true, fmt::format("{} of gradients summed among ranks, buckets: {}", FormatBytes(bytes),
                              buckets)};
  }

 private:
  int LastWriter(TensorId tensor) const {
    int last = -1;
    for (int n = 0; n < update_; ++n) {
      for (TensorId id : nodes_[static_cast<size_t>(n)].outputs) {
        if (id == tensor) last = n;
      }
    }
    if (last < 0) {
      throw InternalError("data_parallel: nothing writes '" + program_.tensor(tensor).name + "'");
    }
    return last;
  }

  bool HasGradients() const {
    return std::any_of(program_.tensors().begin(), program_.tensors().end(),
                       [](const Tensor& tensor) { return tensor.role == Role::kGradient; });
  }

  std::vector<Summand> FindGradients() const {
    std::vector<Summand> found;
    for (const Tensor& tensor : program_.tensors()) {
      if (tensor.role != Role::kParameter) continue;
      const TensorId gradient = program_.Find(graph::GradientName(tensor.name));
      if (gradient != kNoTensor) found.push_back({gradient, LastWriter(gradient), tensor.name});
    }
    return found;
  }

  TensorId AddTensor(TensorId like, const std::string& name, TensorId view_of) {
    Tensor tensor;
    tensor.name = program_.FreshName(name);
    tensor.type = program_.tensor(like).type;
    tensor.role = program_.tensor(like).role;
    if (view_of != kNoTensor) tensor.alias = graph::Alias{view_of, 0};
    return program_.AddTensor(std::move(tensor));
  }

  void Emit(const char* op, const Summand& of, TensorId input, TensorId output) {
    Node node;
    node.op = &graph::OpRegistry::Get().Require(op);
    if (!node.op->view) node.attributes.Set("axis", std::string(ops::Name(ops::Axis::kData)));
    node.inputs = {input};
    node.outputs = {output};
    node.phase = phase_;
    node.scope = of.scope;
    node.made_by = "data_parallel";
    result_.push_back(std::move(node));
  }

  // What is carried is summed where it lies; of a temporary, the sum takes its place.
  void Start(const std::vector<Summand>& bucket) {
    for (const Summand& summand : bucket) {
      const TensorId from = summand.tensor;
      const TensorId sum = program_.tensor(from).persistent
                               ? from
                               : AddTensor(from, program_.tensor(from).name + ".sum", kNoTensor);
      Emit("all_reduce_start", summand, from, sum);
      sums_.emplace_back(from, sum);
    }
  }

  void Finish(const std::vector<Summand>& summands) {
    for (const Summand& summand : summands) {
      const auto found = std::find_if(sums_.begin(), sums_.end(), [&](const auto& pair) {
        return pair.first == summand.tensor;
      });
      const TensorId reduced = AddTensor(
          summand.tensor, program_.tensor(summand.tensor).name + ".reduced", found->second);
      Emit("all_reduce_done", summand, found->second, reduced);
      reduced_.emplace_back(summand.tensor, reduced);
    }
  }

  TensorId Reduced(TensorId id) const {
    for (const auto& [from, to] : reduced_) {
      if (from == id) return to;
    }
    return id;
  }

  Program& program_;
  const std::vector<Node> nodes_;  // as they were
  const int64_t bucket_bytes_;
  int update_ = 0;  // its first node, or the number of nodes
  std::vector<std::pair<TensorId, TensorId>> sums_, reduced_;
  std::vector<Node> result_;
  Phase phase_ = Phase::kForward;
};

}  // namespace

graph::PassResult DataParallel::Run(graph::Program& program) {
  return Reducer(program, options_).Run();
}

}  // namespace plimsoll::parallel
