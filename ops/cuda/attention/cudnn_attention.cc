// Each pass is one operation graph of cudnn-frontend, whose tensors are slices of the packed ones:
// dimensions [B, heads, T, hd], strides of the packed row. cuDNN's softmax statistics are log Σ exp
// of the scaled scores (natural logarithm), the same as lse.
#include "ops/cuda/attention/cudnn_attention.h"

#include <cudnn_frontend.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "gpu/check.h"
#include "ops/attention/attention_backward_ways.h"

namespace plimsoll::ops {

namespace fe = cudnn_frontend;

namespace {

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv, kLengths };

// A part of a problem: some sequences and key-value heads, with the query heads that share these.
struct Part {
  int64_t sequences, kv_heads;
  friend auto operator<=>(const Part&, const Part&) = default;
};

}  // namespace

class CudnnAttention {
 public:
  AttentionProblem problem{};
  AttentionSplit split{};
  std::map<Part, fe::graph::Graph> graphs;
  std::string refusal;  // empty if the plans are ready

  // The stream of the second lane, and events that order it with the first.
  cudaStream_t side = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
};

namespace {

// The tensors of a part of a problem.
class Tensors {
 public:
  Tensors(fe::graph::Graph& graph, const AttentionProblem& whole, Part part)
      : graph_(graph), whole_(whole), part_(part) {}

  Tensor Queries(const char* name, Uid uid) const {
    return Input(name, uid, QueryHeads(), PackedRow());
  }
  Tensor Keys(const char* name, Uid uid) const {
    return Input(name, uid, part_.kv_heads, PackedRow());
  }
  Tensor Out(const char* name, Uid uid) const { return Input(name, uid, QueryHeads(), OutRow()); }
  Tensor Lse() const {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name("lse")
                             .set_uid(kLse)
                             .set_data_type(fe::DataType_t::FLOAT)
                             .set_dim(LseDims())
                             .set_stride(LseStrides()));
  }

  // The number of tokens of each sequence that are not padding.
  Tensor Lengths() const {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name("lengths")
                             .set_uid(kLengths)
                             .set_data_type(fe::DataType_t::INT32)
                             .set_dim({part_.sequences, 1, 1, 1})
                             .set_stride({1, 1, 1, 1}));
  }

  void MakeQueries(const Tensor& tensor, Uid uid) const {
    MakeOutput(tensor, uid, QueryHeads(), PackedRow());
  }
  void MakeKeys(const Tensor& tensor, Uid uid) const {
    MakeOutput(tensor, uid, part_.kv_heads, PackedRow());
  }
  void MakeOut(const Tensor& tensor, Uid uid) const {
    MakeOutput(tensor, uid, QueryHeads(), OutRow());
  }
  void MakeLse(const Tensor& tensor) const {
    tensor->set_output(true)
        .set_uid(kLse)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(LseDims())
        .set_stride(LseStrides());
  }

 private:
  int64_t QueryHeads() const { return part_.kv_heads * (whole_.heads / whole_.kv_heads); }
  // The distances between tokens of the packed tensor and of `out`, in elements.
  int64_t PackedRow() const { return (whole_.heads + 2 * whole_.kv_heads) * whole_.head; }
  int64_t OutRow() const { return whole_.heads * whole_.head; }

  std::vector<int64_t> Dims(int64_t heads) const {
    return {part_.sequences, heads, whole_.sequence, whole_.head};
  }
  std::vector<int64_t> Strides(int64_t row) const {
    return {whole_.sequence * row, whole_.head, row, 1};
  }
  std::vector<int64_t> LseDims() const {
    return {part_.sequences, QueryHeads(), whole_.sequence, 1};
  }
  std::vector<int64_t> LseStrides() const {
    return {whole_.heads * whole_.sequence, whole_.sequence, 1, 1};
  }

  Tensor Input(const char* name, Uid uid, int64_t heads, int64_t row) const {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(uid)
                             .set_dim(Dims(heads))
                             .set_stride(Strides(row)));
  }
  void MakeOutput(const Tensor& tensor, Uid uid, int64_t heads, int64_t row) const {
    tensor->set_output(true).set_uid(uid).set_dim(Dims(heads)).set_stride(Strides(row));
  }

  fe::graph::Graph& graph_;
  const AttentionProblem& whole_;
  Part part_;
};

// Sets the mask that hides keys.
template <typename Options>
void Mask(Options& options, const AttentionProblem& p, const Tensors& tensors) {
  if (p.causal) options.set_causal_mask(true);
  if (!p.padded) return;
  const Tensor lengths = tensors.Lengths();
  options.set_padding_mask(true).set_seq_len_q(lengths).set_seq_len_kv(lengths);
}

void AddForward(fe::graph::Graph& graph, const AttentionProblem& p, Part part) {
  const Tensors tensors(graph, p, part);
  auto options = fe::graph::SDPA_attributes()
                     .set_name("attention")
                     .set_attn_scale(p.scale)
                     .set_generate_stats(true);
  Mask(options, p, tensors);
  auto [out, lse] =
      graph.sdpa(tensors.Queries("q", kQ), tensors.Keys("k", kK), tensors.Keys("v", kV), options);
  tensors.MakeOut(out, kOut);
  tensors.MakeLse(lse);
}

void AddBackward(fe::graph::Graph& graph, const AttentionProblem& p, Part part) {
  const Tensors tensors(graph, p, part);
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_name("attention_backward")
                     .set_attn_scale(p.scale)
                     .set_deterministic_algorithm(true);
  Mask(options, p, tensors);
  auto [dq, dk, dv] = graph.sdpa_backward(tensors.Queries("q", kQ), tensors.Keys("k", kK),
                                          tensors.Keys("v", kV), tensors.Out("out", kOut),
                                          tensors.Out("dout", kDout), tensors.Lse(), options);
  tensors.MakeQueries(dq, kDq);
  tensors.MakeKeys(dk, kDk);
  tensors.MakeKeys(dv, kDv);
}

// Builds the plan of a part. Returns why no plan exists; empty if one was built.
std::string BuildPart(CudnnAttention& made, CudnnAttentionPass pass, Part part,
                      cudnnHandle_t handle) {
  if (made.graphs.contains(part)) return "";
  const AttentionProblem& p = made.problem;
  fe::graph::Graph& graph = made.graphs[part];
  graph
      .set_io_data_type(p.dtype == graph::DType::kBFloat16 ? fe::DataType_t::BFLOAT16
                                                           : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (pass == CudnnAttentionPass::kForward) {
    AddForward(graph, p, part);
  } else {
    AddBackward(graph, p, part);
  }
  fe::error_t status = graph.validate();
  if (status.is_good()) status = graph.build_operation_graph(handle);
  if (status.is_good()) status = graph.create_execution_plans({fe::HeurMode_t::A});
  if (status.is_good()) status = graph.check_support();
  if (status.is_good()) status = graph.build_plans();
  if (status.is_bad()) return status.get_message();
  made.split.lane_bytes =
      std::max(made.split.lane_bytes, (graph.get_workspace_size() + 255) / 256 * 256);
  return "";
}

// Calls visit(part, first sequence, first key-value head).
template <typename Visit>
void ForEachPart(const CudnnAttention& attention, const Visit& visit) {
  const AttentionProblem& p = attention.problem;
  const AttentionSplit& split = attention.split;
  for (int64_t b = 0; b < p.batch; b += split.sequences) {
    for (int64_t g = 0; g < p.kv_heads; g += split.kv_heads) {
      visit(Part{std::min(split.sequences, p.batch - b), std::min(split.kv_heads, p.kv_heads - g)},
            b, g);
    }
  }
}

std::unique_ptr<CudnnAttention> Build(const AttentionProblem& p, CudnnAttentionPass pass,
                                      cudnnHandle_t handle) {
  auto made = std::make_unique<CudnnAttention>();
  made->problem = p;
  made->split = {p.batch, p.kv_heads, 1, 0};
  if (p.dtype != graph::DType::kBFloat16 && p.dtype != graph::DType::kFloat16) {
    made->refusal = "it computes in 16-bit types only";
  } else if (p.head % 8 != 0) {
    made->refusal = "the heads' width is no multiple of 8";
  }
  if (!made->refusal.empty()) return made;
  if (pass == CudnnAttentionPass::kBackward) {
    made->split = SplitAttentionBackward(p.batch, p.sequence, p.heads, p.kv_heads, p.head);
    made->split.lane_bytes = 0;  // the maximum over the plans
  }
  ForEachPart(*made, [&](Part part, int64_t, int64_t) {
    if (made->refusal.empty()) made->refusal = BuildPart(*made, pass, part, handle);
  });
  if (made->split.lanes > 1) {
    gpu::Check(cudaStreamCreateWithFlags(&made->side, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    for (cudaEvent_t* event : {&made->fork, &made->join}) {
      gpu::Check(cudaEventCreateWithFlags(event, cudaEventDisableTiming),
                 "cudaEventCreateWithFlags");
    }
  }
  return made;
}

// Enqueues the part on the handle's stream.
void Execute(const CudnnAttention& attention, Part part, cudnnHandle_t handle,
             std::unordered_map<int64_t, void*> tensors, void* workspace) {
  // execute() is not const, though it changes nothing of a built graph.
  auto& graph = const_cast<fe::graph::Graph&>(attention.graphs.at(part));
  fe::error_t status = graph.execute(handle, tensors, workspace);
  if (status.is_bad()) throw InternalError("cuDNN attention: " + status.get_message());
}

// The address of element `offset` of a 16-bit tensor.
void* At(const void* tensor, int64_t offset) {
  return const_cast<char*>(static_cast<const char*>(tensor)) + offset * 2;
}

}  // namespace

const CudnnAttention* FindCudnnAttention(const AttentionProblem& problem, CudnnAttentionPass pass,
                                         gpu::Libraries& libraries, std::string& reason) {
  using Key = std::tuple<int, AttentionProblem, CudnnAttentionPass>;
  static std::mutex mutex;
  static auto* const plans = new std::map<Key, std::unique_ptr<CudnnAttention>>;  // never destroyed
  int device = 0;
  gpu::Check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  std::unique_ptr<CudnnAttention>& plan = (*plans)[{device, problem, pass}];
  if (plan == nullptr) plan = Build(problem, pass, libraries.cudnn(nullptr));
  if (plan->refusal.empty()) return plan.get();
  reason = plan->refusal;
  return nullptr;
}

int64_t CudnnWorkspaceBytes(const CudnnAttention& attention) {
  return attention.split.lanes * attention.split.lane_bytes;
}

void RunCudnnForward(const CudnnAttention& attention, gpu::Libraries& libraries,
                     cudaStream_t stream, const void* qkv, const int32_t* lengths, void* out,
                     float* lse, void* workspace) {
  const AttentionProblem& p = attention.problem;
  Execute(attention, {p.batch, p.kv_heads}, libraries.cudnn(stream),
          {{kQ, At(qkv, 0)},
           {kK, At(qkv, p.heads * p.head)},
           {kV, At(qkv, (p.heads + p.kv_heads) * p.head)},
           {kOut, out},
           {kLse, lse},
           {kLengths, const_cast<int32_t*>(lengths)}},
          workspace);
}

void RunCudnnBackward(const CudnnAttention& attention, gpu::Libraries& libraries,
                      cudaStream_t stream, const void* qkv, const void* out, const float* lse,
                      const void* dout, const int32_t* lengths, void* dqkv, void* workspace) {
  const AttentionProblem& p = attention.problem;
  const int64_t row = (p.heads + 2 * p.kv_heads) * p.head;
  const int64_t out_row = p.heads * p.head;
  const bool lanes = attention.split.lanes > 1;
  if (lanes) {
    gpu::Check(cudaEventRecord(attention.fork, stream), "cudaEventRecord");
    gpu::Check(cudaStreamWaitEvent(attention.side, attention.fork, 0), "cudaStreamWaitEvent");
  }
  int64_t lane = 0;
  ForEachPart(attention, [&](Part part, int64_t b, int64_t g) {
    const int64_t h = g * (p.heads / p.kv_heads);
    const int64_t q = b * p.sequence * row + h * p.head;
    const int64_t k = b * p.sequence * row + (p.heads + g) * p.head;
    const int64_t v = k + p.kv_heads * p.head;
    const int64_t o = b * p.sequence * out_row + h * p.head;
    Execute(attention, part, libraries.cudnn(lane == 0 ? stream : attention.side),
            {{kQ, At(qkv, q)},
             {kK, At(qkv, k)},
             {kV, At(qkv, v)},
             {kOut, At(out, o)},
             {kDout, At(dout, o)},
             {kLse, const_cast<float*>(lse) + (b * p.heads + h) * p.sequence},
             {kDq, At(dqkv, q)},
             {kDk, At(dqkv, k)},
             {kDv, At(dqkv, v)},
             {kLengths, p.padded ? const_cast<int32_t*>(lengths) + b : nullptr}},
            static_cast<char*>(workspace) + lane * attention.split.lane_bytes);
    if (lanes) lane = 1 - lane;
  });
  if (lanes) {
    gpu::Check(cudaEventRecord(attention.join, attention.side), "cudaEventRecord");
    gpu::Check(cudaStreamWaitEvent(stream, attention.join, 0), "cudaStreamWaitEvent");
  }
}

}  // namespace plimsoll::ops
