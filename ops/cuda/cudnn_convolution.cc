// Each pass is one operation graph of cudnn-frontend. Its dimensions are in the order N, C, (D,) H,
// W, its strides those of the layout with channels last.
#include "ops/cuda/cudnn_convolution.h"

#include <cudnn_frontend.h>

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gpu/check.h"

namespace plimsoll::ops {

namespace fe = cudnn_frontend;

class CudnnConvolution {
 public:
  ConvPass pass;
  fe::graph::Graph graph;
  std::string refusal;  // empty: the plan is ready
};

namespace {

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : int64_t { kX = 1, kWeight, kY };

class GraphBuilder {
 public:
  GraphBuilder(fe::graph::Graph& graph, const ConvGeometry& geometry)
      : graph_(graph), g_(geometry) {}

  void Add(ConvPass pass) {
    if (pass == ConvPass::kForward) {
      const Tensor x = Input(kX), weight = Input(kWeight);
      MakeOutput(graph_.conv_fprop(x, weight, Window<fe::graph::Conv_fprop_attributes>()), kY);
    } else if (pass == ConvPass::kDx) {
      const Tensor dy = Input(kY), weight = Input(kWeight);
      MakeOutput(graph_.conv_dgrad(dy, weight, Window<fe::graph::Conv_dgrad_attributes>()), kX);
    } else {
      const Tensor dy = Input(kY), x = Input(kX);
      MakeOutput(graph_.conv_wgrad(dy, x, Window<fe::graph::Conv_wgrad_attributes>()), kWeight);
    }
  }

 private:
  // A volume of depth 1 that is convolved along its depth is still a volume.
  bool image() const {
    return g_.in[0] == 1 && g_.kernel[0] == 1 && g_.out[0] == 1 && g_.pad[0] == 0;
  }
  std::vector<int64_t> Along(const Spatial& values) const {
    return {values.begin() + (image() ? 1 : 0), values.end()};
  }
  std::vector<int64_t> Sizes(int64_t rows, int64_t channels, const Spatial& extent) const {
    std::vector<int64_t> sizes = {rows, channels};
    for (const int64_t size : Along(extent)) sizes.push_back(size);
    return sizes;
  }
  std::vector<int64_t> SizesOf(Uid uid) const {
    switch (uid) {
      case kX:
        return Sizes(g_.batch, g_.in_channels, g_.in);
      case kWeight:
        return Sizes(g_.out_channels, g_.group_in(), g_.kernel);
      case kY:
        break;
    }
    return Sizes(g_.batch, g_.out_channels, g_.out);
  }
  static std::vector<int64_t> ChannelsLast(const std::vector<int64_t>& sizes) {
    std::vector<int64_t> strides(sizes.size(), 1);
    int64_t stride = sizes[1];
    for (size_t i = sizes.size(); i-- > 2;) {
      strides[i] = stride;
      stride *= sizes[i];
    }
    strides[0] = stride;
    return strides;
  }

  Tensor Input(Uid uid) const {
    const std::vector<int64_t> sizes = SizesOf(uid);
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(std::to_string(uid))
                             .set_uid(uid)
                             .set_dim(sizes)
                             .set_stride(ChannelsLast(sizes)));
  }
  void MakeOutput(const Tensor& tensor, Uid uid) const {
    const std::vector<int64_t> sizes = SizesOf(uid);
    tensor->set_output(true).set_uid(uid).set_dim(sizes).set_stride(ChannelsLast(sizes));
  }
  template <typename Attributes>
  Attributes Window() const {
    Attributes attributes;
    attributes.set_padding(Along(g_.pad))
        .set_stride(Along(g_.stride))
        .set_dilation(Along(g_.dilation));
    return attributes;
  }

  fe::graph::Graph& graph_;
  const ConvGeometry& g_;
};

fe::DataType_t TypeOf(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::kFloat32:
      return fe::DataType_t::FLOAT;
    case graph::DType::kBFloat16:
      return fe::DataType_t::BFLOAT16;
    case graph::DType::kFloat16:
      return fe::DataType_t::HALF;
    default:
      throw InternalError("cuDNN convolution in an unknown type");
  }
}

// What a plan must not have.
std::vector<fe::NumericalNote_t> RefusedNotes(const ConvProblem& problem) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes = {
      Note::NONDETERMINISTIC,   Note::REDUCED_PRECISION_REDUCTION, Note::FFT,
      Note::WINOGRAD,           Note::WINOGRAD_TILE_4x4,           Note::WINOGRAD_TILE_6x6,
      Note::WINOGRAD_TILE_13x13};
  if (problem.dtype != graph::DType::kFloat32 || !problem.tf32) {
    notes.push_back(Note::DOWN_CONVERT_INPUTS);
  }
  if (problem.dtype == graph::DType::kFloat32 && !problem.tf32) notes.push_back(Note::TENSOR_CORE);
  return notes;
}

std::unique_ptr<CudnnConvolution> Build(const ConvProblem& problem, cudnnHandle_t handle) {
  auto made = std::make_unique<CudnnConvolution>();
  made->pass = problem.pass;
  fe::graph::Graph& graph = made->graph;
  graph.set_io_data_type(TypeOf(problem.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  GraphBuilder(graph, problem.geometry).Add(problem.pass);
  fe::error_t status = graph.validate();
  if (status.is_good()) status = graph.build_operation_graph(handle);
  if (status.is_good()) {
    status = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  }
  if (status.is_good()) {
    graph.deselect_numeric_notes(RefusedNotes(problem));
    graph.deselect_workspace_greater_than(problem.workspace_limit);
    status = graph.check_support();
  }
  if (status.is_good()) status = graph.build_plans();
  if (status.is_bad()) made->refusal = status.get_message();
  return made;
}

}  // namespace

const CudnnConvolution* FindCudnnConvolution(const ConvProblem& problem, gpu::Libraries& libraries,
                                             std::string& reason) {
  using Key = std::pair<int, ConvProblem>;
  static std::mutex mutex;
  static auto* const plans = new std::map<Key, std::unique_ptr<CudnnConvolution>>;  // never freed
  int device = 0;
  gpu::Check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  std::unique_ptr<CudnnConvolution>& plan = (*plans)[{device, problem}];
  if (plan == nullptr) plan = Build(problem, libraries.cudnn(nullptr));
  if (plan->refusal.empty()) return plan.get();
  reason = plan->refusal;
  return nullptr;
}

void RunCudnnConvolution(const CudnnConvolution& convolution, gpu::Libraries& libraries,
                         cudaStream_t stream, const void* a, const void* b, void* result,
                         void* workspace) {
  const auto input = [](const void* data) { return const_cast<void*>(data); };
  std::unordered_map<int64_t, void*> tensors;
  switch (convolution.pass) {
    case ConvPass::kForward:
      tensors = {{kX, input(a)}, {kWeight, input(b)}, {kY, result}};
      break;
    case ConvPass::kDx:
      tensors = {{kY, input(a)}, {kWeight, input(b)}, {kX, result}};
      break;
    case ConvPass::kDw:
      tensors = {{kX, input(a)}, {kY, input(b)}, {kWeight, result}};
      break;
  }
  // execute() is not const, though it changes nothing of a built graph.
  auto& graph = const_cast<fe::graph::Graph&>(convolution.graph);
  fe::error_t status = graph.execute(libraries.cudnn(stream), tensors, workspace);
  if (status.is_bad()) throw InternalError("cuDNN convolution: " + status.get_message());
}

}  // namespace plimsoll::ops
