// Formulas in dice.h. With M classes that count, q = G + P + smooth_dr and N voxels:
//   d dice / dp[c] = (−2·t / q + (2·I + smooth_nr) / q² · (1, or 2·p with squared_pred)) / M
//   dlogits[c] = p[c] · (d/dp[c] − Σ_k p[k] · d/dp[k]),   of ce: (p[c] − t) / N
// Threads share the chunks of voxels; partial sums are added in the chunks' order, in double.
// Bytes: forward N·s, backward 2·N·s, and labels.
#include <algorithm>
#include <cmath>
#include <string>

#include "ops/kernel.h"
#include "ops/loss/dice.h"
#include "ops/loss/dice_sums.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

void CheckLabels(const CpuContext& ctx, int64_t classes) {
  const int32_t* const labels = ctx.in<int32_t>(1);
  const int64_t voxels = ctx.in_shape(1).elements();
  const auto wrong =
      std::find_if(labels, labels + voxels, [=](int32_t label) { return label >= classes; });
  if (wrong == labels + voxels) return;
  throw InternalError(ctx.op.name + ": a label of " + std::to_string(*wrong) + " among " +
                      std::to_string(classes) + " classes");
}

// Sets p to the softmax of the logits. Returns the logarithm of the sum of exponentials.
template <typename T, typename S>
T Softmax(const S* logits, int64_t classes, T* p) {
  for (int64_t c = 0; c < classes; ++c) p[c] = Load<T>(logits + c, 1)[0];
  const T largest = *std::max_element(p, p + classes);
  T sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += p[c] = std::exp(p[c] - largest);
  for (int64_t c = 0; c < classes; ++c) p[c] /= sum;
  return largest + std::log(sum);
}

// Calls body(sample, chunk, first voxel, last voxel + 1) for all chunks; voxels are numbered over
// all samples.
template <typename Body>
void ForChunks(ThreadPool& pool, const DiceSums& sums, const Body& body) {
  pool.ParallelFor(sums.samples * sums.chunks, 1, [&](int64_t i, int64_t) {
    const int64_t sample = i / sums.chunks, chunk = i % sums.chunks;
    const int64_t from = chunk * kDiceChunk, to = std::min(from + kDiceChunk, sums.voxels);
    body(sample, chunk, sample * sums.voxels + from, sample * sums.voxels + to);
  });
}

// The loss of a sample. `total`: the sample's column sums.
template <typename T>
double LossOf(const DiceTerms<T>& terms, int64_t classes, const T* total) {
  double dice = 0, voxels = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const double ground = total[classes + c], predicted = total[2 * classes + c];
    voxels += ground;
    if (c < terms.first) continue;
    dice += 1 - (2.0 * total[c] + terms.smooth_nr) / (ground + predicted + terms.smooth_dr);
  }
  const double ce = voxels > 0 ? total[3 * classes] / voxels : 0;
  return terms.lambda_dice * dice / static_cast<double>(classes - terms.first) +
         terms.lambda_ce * ce;
}

void Loss(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const DiceSums sums(ctx.in_shape(0));
    const int64_t classes = sums.classes;
    CheckLabels(ctx, classes);
    const DiceTerms<T> terms(ctx.attributes);
    const S* const logits = ctx.in<S>(0);
    const int32_t* const labels = ctx.in<int32_t>(1);
    T* const partials = static_cast<T*>(ctx.workspace);
    ForChunks(ctx.pool, sums, [&](int64_t b, int64_t chunk, int64_t begin, int64_t end) {
      T* const partial = partials + (b * sums.chunks + chunk) * sums.columns;
      T *const matched = partial, *const ground = partial + classes;
      T *const predicted = ground + classes, *const ce = predicted + classes;
      std::fill_n(partial, sums.columns, T(0));
      T p[kMostDiceClasses];
      for (int64_t v = begin; v < end; ++v) {
        const int32_t label = labels[v];
        if (label < 0) continue;
        const T lse = Softmax(logits + v * classes, classes, p);
        matched[label] += p[label];
        ground[label] += 1;
        for (int64_t c = 0; c < classes; ++c) predicted[c] += terms.squared ? p[c] * p[c] : p[c];
        *ce += lse - Load<T>(logits + v * classes + label, 1)[0];
      }
    });
    T* const totals = partials + sums.partials();
    double loss = 0;
    for (int64_t b = 0; b < sums.samples; ++b) {
      T* const total = totals + b * sums.columns;
      for (int64_t i = 0; i < sums.columns; ++i) {
        double sum = 0;
        for (int64_t chunk = 0; chunk < sums.chunks; ++chunk) {
          sum += partials[(b * sums.chunks + chunk) * sums.columns + i];
        }
        total[i] = static_cast<T>(sum);
      }
      loss += LossOf(terms, classes, total);
      if (T* const kept = ctx.out<T>(1)) {
        for (int64_t i = 0; i < 3 * classes; ++i) {
          kept[(b * classes + i % classes) * 3 + i / classes] = total[i];
        }
      }
    }
    *ctx.out<T>(0) = static_cast<T>(loss * *ctx.in<float>(2));
  });
}

int64_t LossWorkspace(const graph::OpCall& call, int /*threads*/) {
  const graph::TensorType& logits = call.input(0);
  const DiceSums sums(logits.shape);
  return (sums.partials() + sums.totals()) * graph::ByteSize(graph::ComputeType(logits.dtype));
}

// The gradient of a sample's voxels: d loss / dp[c] = of_label[c] · t + of_all[c] · (1, or 2·p).
template <typename T>
struct Slopes {
  // `sums`: the sample's sums. `factor`: dloss · weight.
  Slopes(const DiceTerms<T>& terms, int64_t classes, const T* sums, T factor) {
    const T dice = factor * terms.lambda_dice / static_cast<T>(classes - terms.first);
    T voxels = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const T matched = sums[3 * c], ground = sums[3 * c + 1], predicted = sums[3 * c + 2];
      voxels += ground;
      const bool counts = c >= terms.first;
      const T both = ground + predicted + terms.smooth_dr;
      of_label[c] = counts ? -2 * dice / both : 0;
      of_all[c] = counts ? dice * (2 * matched + terms.smooth_nr) / (both * both) : 0;
    }
    ce = voxels > 0 ? factor * terms.lambda_ce / voxels : 0;
  }

  T of_label[kMostDiceClasses], of_all[kMostDiceClasses];
  T ce;  // the derivative of the loss with respect to −log p
};

void LossBackward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const DiceSums sums(ctx.in_shape(0));
    const int64_t classes = sums.classes;
    CheckLabels(ctx, classes);
    const DiceTerms<T> terms(ctx.attributes);
    const S* const logits = ctx.in<S>(0);
    const int32_t* const labels = ctx.in<int32_t>(1);
    const T factor = *ctx.in<T>(4) * static_cast<T>(*ctx.in<float>(2));
    S* const dlogits = ctx.out<S>(0);
    ForChunks(ctx.pool, sums, [&](int64_t b, int64_t, int64_t begin, int64_t end) {
      const Slopes<T> slopes(terms, classes, ctx.in<T>(3) + b * classes * 3, factor);
      T p[kMostDiceClasses], dp[kMostDiceClasses];
      for (int64_t v = begin; v < end; ++v) {
        const int32_t label = labels[v];
        S* const to = dlogits + v * classes;
        if (label < 0) {
          for (int64_t c = 0; c < classes; ++c) Store<T>(to + c, Vec<T>{}, 1);
          continue;
        }
        Softmax(logits + v * classes, classes, p);
        T mean = 0;
        for (int64_t c = 0; c < classes; ++c) {
          dp[c] = slopes.of_all[c] * (terms.squared ? 2 * p[c] : 1);
          if (c == label) dp[c] += slopes.of_label[c];
          mean += p[c] * dp[c];
        }
        for (int64_t c = 0; c < classes; ++c) {
          const T gradient = p[c] * (dp[c] - mean) + slopes.ce * (p[c] - (c == label ? 1 : 0));
          Store<T>(to + c, Vec<T>{gradient}, 1);
        }
      }
    });
  });
}

const CpuKernelRegistration kLoss({"dice_loss", &Loss, &LossWorkspace});
const CpuKernelRegistration kLossBackward({"dice_loss_backward", &LossBackward});

}  // namespace
}  // namespace plimsoll::ops
