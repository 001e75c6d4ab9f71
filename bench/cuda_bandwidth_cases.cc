#include "bench/cuda_bandwidth_cases.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::bench {
namespace {

using graph::DType;
using graph::Shape;

constexpr DType kLow = DType::kBFloat16;

Input Low(Shape shape) { return {{kLow, shape}}; }
Input Float(Shape shape) { return {{DType::kFloat32, shape}}; }
Input Positive(Shape shape) { return {{DType::kFloat32, shape}, Fill::kPositive}; }
Input Tokens(Shape shape, int64_t vocabulary) {
  return {{DType::kInt32, shape}, Fill::kTokens, vocabulary};
}
Input Absent() { return {{}, Fill::kAbsent}; }

std::string Label(int64_t rows, int64_t width, const std::string& more = "") {
  return "[" + std::to_string(rows) + "," + std::to_string(width) + "]" +
         (more.empty() ? "" : " " + more);
}

// layer_norm, rms_norm and related ops. GPT-2 124M and 1558M, Qwen2.5 0.5B and 1.5B.
void AddNorms(std::vector<Case>& cases) {
  struct Size {
    int64_t rows, width;
  };
  for (const auto& [rows, width] : {Size{32768, 768}, Size{16384, 1600}, Size{32768, 1536}}) {
    const Input x = Low({rows, width}), weight = Low({width});
    const Input mean = Float({rows}), rstd = Positive({rows});
    cases.push_back({"layer_norm", Label(rows, width), {x, weight, weight}, {{"eps", 1e-5}}});
    cases.push_back({"add_layer_norm",
                     Label(rows, width, "in place"),
                     {x, x, weight, weight},
                     {{"eps", 1e-5}},
                     {},
                     {{0, 0}, {1, 1}}});
    cases.push_back({"layer_norm_backward",
                     Label(rows, width, "acc in place"),
                     {x, weight, mean, rstd, x, x, Absent(), Absent()},
                     {},
                     {},
                     {{5, 0}}});
  }
  // What is added, and the gradient, are dropped, as behind and before a layer's last product.
  for (const auto& [rows, width] : {Size{32768, 768}, Size{16384, 1024}, Size{16384, 1600}}) {
    const Input x = Low({rows, width}), weight = Low({width});
    const Input mean = Float({rows}), rstd = Positive({rows});
    const Input rng{{DType::kInt32, {2}}, Fill::kRng};
    const graph::Attributes drop = {{"p", 0.1}, {"key", int64_t{5}}};
    cases.push_back({"add_layer_norm",
                     Label(rows, width, "dropout, in place"),
                     {x, x, weight, weight, rng},
                     {{"eps", 1e-5}, {"p", 0.1}, {"key", int64_t{5}}},
                     {},
                     {{0, 0}, {1, 1}}});
    cases.push_back({"layer_norm_backward",
                     Label(rows, width, "dropout, acc in place"),
                     {x, weight, mean, rstd, x, x, Absent(), Absent(), rng},
                     drop,
                     {},
                     {{5, 0}}});
    cases.push_back({"layer_norm_with_backward",
                     Label(rows, width, "dropout, acc in place"),
                     {x, weight, weight, mean, rstd, x, x, Absent(), Absent(), rng},
                     drop,
                     {},
                     {{6, 1}}});
  }
  for (const auto& [rows, width] : {Size{32768, 768}, Size{16384, 1600}}) {
    const Input x = Low({rows, width}), weight = Low({width});
    cases.push_back({"layer_norm_with_backward",
                     Label(rows, width, "acc in place"),
                     {x, weight, weight, Float({rows}), Positive({rows}), x, x, Absent(), Absent()},
                     {},
                     {},
                     {{6, 1}}});
  }
  for (const auto& [rows, width] : {Size{32768, 896}, Size{32768, 1536}}) {
    const Input x = Low({rows, width}), weight = Low({width}), rstd = Positive({rows});
    cases.push_back({"rms_norm", Label(rows, width), {x, weight}, {{"eps", 1e-5}}});
    cases.push_back({"add_rms_norm",
                     Label(rows, width, "in place"),
                     {x, x, weight},
                     {{"eps", 1e-5}},
                     {},
                     {{0, 0}, {1, 1}}});
    cases.push_back({"rms_norm_backward",
                     Label(rows, width, "acc in place"),
                     {x, weight, rstd, x, x, Absent()},
                     {},
                     {},
                     {{4, 0}}});
  }
}

// Sums over all gradients of GPT-2 124M.
void AddReductions(std::vector<Case>& cases) {
  Case norm{"global_norm", "GPT-2 124M, f32", {Float({50304, 768}), Float({1024, 768})}};
  for (int layer = 0; layer < 12; ++layer) {
    for (const Shape& shape :
         {Shape{2304, 768}, Shape{768, 768}, Shape{3072, 768}, Shape{768, 3072}, Shape{768},
          Shape{768}, Shape{768}, Shape{768}, Shape{2304}, Shape{768}, Shape{3072}, Shape{768}}) {
      norm.inputs.push_back(Float(shape));
    }
  }
  cases.push_back(norm);
  cases.push_back({"squared_norm", Label(32768, 768), {Low({32768, 768})}});
}

// The average number of distinct tokens in n draws of Fill::kTokens.
double DistinctTokens(int64_t n, int64_t vocabulary) {
  double distinct = 0;
  for (int64_t token = 0; token < vocabulary; ++token) {
    const double low = std::log(std::max(1.0, static_cast<double>(token) + 0.5));
    const double high = std::log(static_cast<double>(token) + 1.5);
    const double share = (high - low) / std::log(static_cast<double>(vocabulary));
    distinct += 1 - std::pow(1 - share, static_cast<double>(n));
  }
  return distinct;
}

// embedding_dw must read dy once, and clear the table or read the rows of the tokens; their sums
// are written once.
void AddEmbeddings(std::vector<Case>& cases) {
  for (const bool acc : {true, false}) {
    const Input table = acc ? Float({50304, 768}) : Absent();
    const double rows = DistinctTokens(32768, 50304) * 768 * 4;
    const double dy = 32768.0 * 768 * 2, cleared = acc ? rows : 50304.0 * 768 * 4;
    cases.push_back(
        {"embedding_dw",
         Label(32768, 768, acc ? "acc in place" : "written"),
         {Tokens({32, 1024}, 50304), Low({32, 1024, 768}), table},
         {{"rows", int64_t{50304}}},
         {},
         acc ? std::vector<graph::InPlacePair>{{2, 0}} : std::vector<graph::InPlacePair>{},
         dy + rows + cleared});
  }
  cases.push_back({"position_dw",
                   Label(32768, 768, "written"),
                   {Low({32, 1024, 768}), Absent()},
                   {{"rows", int64_t{1024}}}});
}

void AddElementwise(std::vector<Case>& cases) {
  const Input x = Low({32768, 768}), rng = {{DType::kInt32, {2}}, Fill::kRng};
  cases.push_back({"add", Label(32768, 768), {x, x}});
  cases.push_back({"add", Label(32768, 768, "in place"), {x, x}, {}, {}, {{0, 0}}});
  cases.push_back({"scale", Label(32768, 768), {x}, {{"factor", 0.5}}});
  cases.push_back({"cast", Label(32768, 768, "to f32"), {x}, {{"dtype", "f32"}}});
  cases.push_back(
      {"cast", Label(32768, 768, "to bf16"), {Float({32768, 768})}, {{"dtype", "bf16"}}});
  cases.push_back({"dropout", Label(32768, 768), {x, rng}, {{"p", 0.1}, {"key", int64_t{5}}}});
  cases.push_back({"embedding",
                   Label(32768, 768, "with positions"),
                   {Tokens({32, 1024}, 50304), Low({50304, 768}), Low({1024, 768})}});
  cases.push_back(
      {"rotary",
       "[32,1024,18*64]",
       {Low({32, 1024, 18 * 64})},
       {{"heads", int64_t{14}}, {"kv_heads", int64_t{2}}, {"theta", 10000.0}, {"inverse", false}}});
}

// The inner activations of GPT-2's blocks (124M and 1558M) and of Qwen2.5's (0.5B).
void AddActivations(std::vector<Case>& cases) {
  for (const Shape& shape : {Shape{32768, 3072}, Shape{16384, 6400}}) {
    const std::string label = Label(shape.dim(0), shape.dim(1));
    const Input x = Low(shape);
    for (const char* approximate : {"tanh", "none"}) {
      const graph::Attributes attributes{{"approximate", std::string(approximate)}};
      cases.push_back({"gelu", label + " " + approximate, {x}, attributes});
      cases.push_back({"gelu_backward", label + " " + approximate, {x, x}, attributes});
    }
    cases.push_back({"gelu_backward",
                     label + " tanh, in place",
                     {x, x},
                     {{"approximate", "tanh"}},
                     {},
                     {{1, 0}}});
    for (const bool bias : {false, true}) {
      cases.push_back({"gelu_with_backward",
                       label + (bias ? " tanh, bias" : " tanh"),
                       {x, x},
                       {{"approximate", "tanh"}},
                       bias ? std::vector<int>{} : std::vector<int>{2}});
    }
    cases.push_back({"gelu_with_backward",
                     label + " tanh, bias, no y",
                     {x, x},
                     {{"approximate", "tanh"}},
                     {0}});
  }
  const Input gate_up = Low({32768, 2 * 4864}), dy = Low({32768, 4864});
  cases.push_back({"swiglu", Label(32768, 4864), {gate_up}});
  cases.push_back({"swiglu_backward", Label(32768, 4864), {gate_up, dy}});
  cases.push_back({"swiglu_with_backward", Label(32768, 4864), {gate_up, dy}});
}

}  // namespace

std::vector<Case> Cases() {
  std::vector<Case> cases;
  AddNorms(cases);
  AddReductions(cases);
  AddEmbeddings(cases);
  AddElementwise(cases);
  AddActivations(cases);
  return cases;
}

}  // namespace plimsoll::bench
