#include "bench/gemm_peak.h"

#include <dlfcn.h>

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>

#include "base/low_precision.h"
#include "ops/cpu/packed_gemm.h"

namespace plimsoll::bench {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const Matrix>;
using Map = Eigen::Map<Matrix>;

// The parts of the two libraries' C interfaces that are used here.
using CblasSgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                            const float* a, int lda, const float* b, int ldb, float beta, float* c,
                            int ldc);
using DnnlSgemm = int (*)(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                          const float* a, int64_t lda, const float* b, int64_t ldb, float beta,
                          float* c, int64_t ldc);
using SetThreads = void (*)(int);

constexpr int kRowMajor = 101;
constexpr int kNoTrans = 111;
constexpr int kTrans = 112;

template <typename Function>
Function Find(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

struct OptionalLibraries {
  explicit OptionalLibraries(int threads) {
    // OpenBLAS takes processors that are newer than itself for ones without AVX-512. If this
    // variable is set before it loads, it uses AVX-512. A choice already made stays.
    if (cpu::GemmKernelSupported(cpu::GemmKernel::kAvx512)) {
      setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    }
    void* const blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    cblas_sgemm = Find<CblasSgemm>(blas, "cblas_sgemm");
    if (auto set = Find<SetThreads>(blas, "openblas_set_num_threads")) set(threads);
    void* const dnnl = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    dnnl_sgemm = Find<DnnlSgemm>(dnnl, "dnnl_sgemm");
    // oneDNN runs on OpenMP, whose symbols it has loaded.
    if (auto set = Find<SetThreads>(dnnl, "omp_set_num_threads")) set(threads);
  }
  CblasSgemm cblas_sgemm = nullptr;
  DnnlSgemm dnnl_sgemm = nullptr;
};

const OptionalLibraries& Libraries(int threads) {
  static const OptionalLibraries libraries(threads);
  return libraries;
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
template <typename T>
using Aligned = std::unique_ptr<T[], Free>;

template <typename T>
Aligned<T> Allocate(int64_t count) {
  const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
  return Aligned<T>(static_cast<T*>(std::aligned_alloc(64, std::max<size_t>(bytes, 64))));
}

using Clock = std::chrono::steady_clock;

// GFLOP/s of one run.
template <typename Run>
double RateOnce(const GemmShape& shape, const Run& run) {
  const auto start = Clock::now();
  run();
  const double taken = std::chrono::duration<double>(Clock::now() - start).count();
  return 2.0 * shape.m * shape.n * shape.k / taken * 1e-9;
}

template <typename Run>
double Rate(const GemmShape& shape, double seconds, const Run& run) {
  run();  // touches the memory and starts the libraries up
  double best = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    best = std::max(best, RateOnce(shape, run));
  } while (Clock::now() < end);
  return best;
}

float Stored(float value, float) { return value; }
BFloat16 Stored(float value, BFloat16) { return {ToBf16(value)}; }
Float16 Stored(float value, Float16) { return {ToF16(value)}; }

// Our GEMM with its own operands: A and B stored as S, the result as C.
template <typename S, typename C = S>
class OurProduct {
 public:
  explicit OurProduct(const GemmShape& s)
      : a_(Random(s.m * s.k)),
        b_(Random(s.k * s.n)),
        c_(Allocate<C>(s.m * s.n)),
        bytes_(cpu::GemmWorkspaceBytes<C>(s.m, s.n, s.k)),
        workspace_(Allocate<char>(bytes_)) {
    args_.trans_a = s.trans_a;
    args_.trans_b = s.trans_b;
    args_.m = s.m;
    args_.n = s.n;
    args_.k = s.k;
    args_.a = a_.get();
    args_.lda = s.trans_a ? s.m : s.k;
    args_.b = b_.get();
    args_.ldb = s.trans_b ? s.k : s.n;
    args_.c = c_.get();
    args_.ldc = s.n;
  }

  void Run(ThreadPool& pool) const { cpu::Gemm(pool, args_, workspace_.get(), bytes_); }
  const cpu::GemmArgs<S, S, C>& args() const { return args_; }
  C* c() const { return c_.get(); }

 private:
  static Aligned<S> Random(int64_t count) {
    Aligned<S> values = Allocate<S>(count);
    std::minstd_rand random(static_cast<unsigned>(count));
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::generate_n(values.get(), count, [&] { return Stored(uniform(random), S{}); });
    return values;
  }

  const Aligned<S> a_, b_;
  const Aligned<C> c_;
  const int64_t bytes_;
  const Aligned<char> workspace_;
  cpu::GemmArgs<S, S, C> args_;
};

template <typename S, typename C>
LowPrecisionRates MeasureInTurns(ThreadPool& pool, const GemmShape& shape, double seconds) {
  const OurProduct<S, C> low(shape);
  const OurProduct<float> wide(shape);
  low.Run(pool);  // touches the memory
  wide.Run(pool);
  LowPrecisionRates rates;
  const auto end = Clock::now() + std::chrono::duration<double>(2 * seconds);
  do {
    rates.low = std::max(rates.low, RateOnce(shape, [&] { low.Run(pool); }));
    rates.float32 = std::max(rates.float32, RateOnce(shape, [&] { wide.Run(pool); }));
  } while (Clock::now() < end);
  return rates;
}

template <typename S>
LowPrecisionRates MeasureStored(ThreadPool& pool, const GemmShape& shape, double seconds) {
  return shape.float_result ? MeasureInTurns<S, float>(pool, shape, seconds)
                            : MeasureInTurns<S, S>(pool, shape, seconds);
}

// Eigen has no threads of its own here: the rows are split over the pool, one stripe per thread.
void EigenProduct(ThreadPool& pool, const GemmShape& s, const float* a, const float* b, float* c) {
  const int64_t rows = ((s.m + pool.size() - 1) / pool.size() + 3) / 4 * 4;
  pool.ParallelFor(s.m, rows, [&](int64_t begin, int64_t end) {
    const ConstMap left(a, s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k);
    const ConstMap right(b, s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n);
    Map result(c, s.m, s.n);
    auto stripe = result.middleRows(begin, end - begin);
    if (s.trans_a) {
      const auto part = left.middleCols(begin, end - begin).transpose();
      if (s.trans_b) {
        stripe.noalias() = part * right.transpose();
      } else {
        stripe.noalias() = part * right;
      }
    } else {
      const auto part = left.middleRows(begin, end - begin);
      if (s.trans_b) {
        stripe.noalias() = part * right.transpose();
      } else {
        stripe.noalias() = part * right;
      }
    }
  });
}

}  // namespace

std::vector<GemmRate> MeasureGemm(ThreadPool& pool, const GemmShape& s, double seconds) {
  const OurProduct<float> ours(s);
  const float* const a = ours.args().a;
  const float* const b = ours.args().b;
  float* const c = ours.c();
  const int64_t lda = ours.args().lda, ldb = ours.args().ldb;

  std::vector<GemmRate> rates;
  rates.push_back({"plimsoll", Rate(s, seconds, [&] { ours.Run(pool); })});
  rates.push_back({"eigen", Rate(s, seconds, [&] { EigenProduct(pool, s, a, b, c); })});
  const OptionalLibraries& libraries = Libraries(pool.size());
  if (libraries.cblas_sgemm != nullptr) {
    rates.push_back({"openblas", Rate(s, seconds, [&] {
                       libraries.cblas_sgemm(kRowMajor, s.trans_a ? kTrans : kNoTrans,
                                             s.trans_b ? kTrans : kNoTrans, static_cast<int>(s.m),
                                             static_cast<int>(s.n), static_cast<int>(s.k), 1, a,
                                             static_cast<int>(lda), b, static_cast<int>(ldb), 0, c,
                                             static_cast<int>(s.n));
                     })});
  }
  if (libraries.dnnl_sgemm != nullptr) {
    rates.push_back({"onednn", Rate(s, seconds, [&] {
                       libraries.dnnl_sgemm(s.trans_a ? 'T' : 'N', s.trans_b ? 'T' : 'N', s.m, s.n,
                                            s.k, 1, a, lda, b, ldb, 0, c, s.n);
                     })});
  }
  return rates;
}

LowPrecisionRates MeasureLowPrecision(ThreadPool& pool, const GemmShape& shape, graph::DType dtype,
                                      double seconds) {
  return dtype == graph::DType::kBFloat16 ? MeasureStored<BFloat16>(pool, shape, seconds)
                                          : MeasureStored<Float16>(pool, shape, seconds);
}

GemmPeak MeasureGemmPeak(ThreadPool& pool, double seconds) {
  GemmPeak peak;
  for (const GemmShape& shape : {GemmShape{"square", false, false, 2048, 2048, 2048},
                                 GemmShape{"fc", false, false, 1024, 3072, 768}}) {
    for (const GemmRate& rate : MeasureGemm(pool, shape, seconds)) {
      if (rate.gflops > peak.gflops) peak = {rate.gflops, rate.library};
    }
  }
  return peak;
}

}  // namespace plimsoll::bench
