// Each pass is one operation graph of cudnn-frontend. Its dimensions are in the order N, C, (D,) H,
// W, its strides those of the layout with channels last.
#include "ops/cuda/cudnn_convolution.h"

#include <cudnn_frontend.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace plimsoll::ops {

namespace fe = cudnn_frontend;

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

// The numerical properties that a plan must not have.
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

// The addresses of the tensors, by their numbers in the graph.
std::unordered_map<int64_t, void*> TensorsOf(ConvPass pass, const ConvBuffers& buffers) {
  void* const a = const_cast<void*>(buffers.a);
  void* const b = const_cast<void*>(buffers.b);
  switch (pass) {
    case ConvPass::kForward:
      return {{kX, a}, {kWeight, b}, {kY, buffers.result}};
    case ConvPass::kDx:
      return {{kY, a}, {kWeight, b}, {kX, buffers.result}};
    case ConvPass::kDw:
      break;
  }
  return {{kX, a}, {kY, b}, {kWeight, buffers.result}};
}

}  // namespace

class CudnnConvolution::Impl {
 public:
  Impl(const ConvProblem& problem, cudnnHandle_t handle) : problem_(problem) {
    graph_.set_io_data_type(TypeOf(problem.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    GraphBuilder(graph_, problem.geometry).Add(problem.pass);
    if (graph_.validate().is_bad() || graph_.build_operation_graph(handle).is_bad()) return;
    using Mode = fe::HeurMode_t;
    if (graph_.create_execution_plans({Mode::A, Mode::B, Mode::FALLBACK}).is_bad()) return;
    graph_.deselect_numeric_notes(RefusedNotes(problem));
    graph_.deselect_workspace_greater_than(problem.workspace_limit);
    ListPlans();
  }

  const std::vector<std::string>& names() const { return names_; }

  bool Build(size_t plan) {
    return graph_.build_plan_at_index(indices_[plan]).is_good() &&
           WorkspaceBytes(plan) <= problem_.workspace_limit;
  }

  int64_t WorkspaceBytes(size_t plan) const {
    return graph_.get_workspace_size_plan_at_index(indices_[plan]);
  }

  std::string Run(size_t plan, cudnnHandle_t handle, const ConvBuffers& buffers) const {
    std::unordered_map<int64_t, void*> tensors = TensorsOf(problem_.pass, buffers);
    fe::error_t status =
        graph_.execute_plan_at_index(handle, tensors, buffers.workspace, indices_[plan]);
    return status.is_good() ? "" : "cuDNN: " + status.get_message();
  }

 private:
  // Lists the plans without repetition: the answers of cuDNN's heuristics overlap.
  void ListPlans() {
    for (int64_t i = 0; i < graph_.get_execution_plan_count(); ++i) {
      std::string name;
      if (graph_.get_plan_name_at_index(i, name).is_bad() || name.starts_with("INVALID")) continue;
      if (std::find(names_.begin(), names_.end(), name) != names_.end()) continue;
      names_.push_back(name);
      indices_.push_back(i);
    }
  }

  ConvProblem problem_;
  fe::graph::Graph graph_;
  std::vector<std::string> names_;
  std::vector<int64_t> indices_;  // indices of the named plans in the graph
};

CudnnConvolution::CudnnConvolution(const ConvProblem& problem, gpu::Libraries& libraries)
    : impl_(std::make_unique<Impl>(problem, libraries.cudnn(nullptr))) {}

CudnnConvolution::~CudnnConvolution() = default;

const std::vector<std::string>& CudnnConvolution::names() const { return impl_->names(); }

bool CudnnConvolution::Build(size_t plan) { return impl_->Build(plan); }

int64_t CudnnConvolution::WorkspaceBytes(size_t plan) const { return impl_->WorkspaceBytes(plan); }

std::string CudnnConvolution::Run(size_t plan, gpu::Libraries& libraries, cudaStream_t stream,
                                  const ConvBuffers& buffers) const {
  return impl_->Run(plan, libraries.cudnn(stream), buffers);
}

}  // namespace plimsoll::ops
