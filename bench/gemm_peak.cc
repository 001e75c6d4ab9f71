#include "bench/gemm_peak.h"

#include <dlfcn.h>

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>

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

// GFLOP/s of the best run.
template <typename Run>
double Rate(const GemmShape& shape, double seconds, const Run& run) {
  run();  // touches the memory and starts the libraries up
  double best = 1e30;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end);
  return 2e-9 * static_cast<double>(shape.m * shape.n * shape.k) / best;
}

// Our GEMM with operands of its own.
class OurProduct {
 public:
  explicit OurProduct(const GemmShape& s)
      : a_(Random(s.m * s.k)),
        b_(Random(s.k * s.n)),
        c_(Allocate<float>(s.m * s.n)),
        bytes_(cpu::GemmWorkspaceBytes<float>(s.m, s.n, s.k)),
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
  const cpu::GemmArgs<float, float, float>& args() const { return args_; }

 private:
  static Aligned<float> Random(int64_t count) {
    Aligned<float> values = Allocate<float>(count);
    std::minstd_rand random(static_cast<unsigned>(count));
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::generate_n(values.get(), count, [&] { return uniform(random); });
    return values;
  }

  const Aligned<float> a_, b_, c_;
  const int64_t bytes_;
  const Aligned<char> workspace_;
  cpu::GemmArgs<float, float, float> args_;
};

// stripe = left · op(B)
template <typename Left, typename Stripe>
void EigenStripe(const Left& left, const ConstMap& right, bool trans_b, Stripe stripe) {
  if (trans_b) {
    stripe.noalias() = left * right.transpose();
  } else {
    stripe.noalias() = left * right;
  }
}

// Eigen has no threads of its own here: the rows are split over the pool, one stripe per thread.
void EigenProduct(ThreadPool& pool, const GemmShape& s, const float* a, const float* b, float* c) {
  const int64_t rows = ((s.m + pool.size() - 1) / pool.size() + 3) / 4 * 4;
  pool.ParallelFor(s.m, rows, [&](int64_t begin, int64_t end) {
    const ConstMap left(a, s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k);
    const ConstMap right(b, s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n);
    auto stripe = Map(c, s.m, s.n).middleRows(begin, end - begin);
    if (s.trans_a) {
      EigenStripe(left.middleCols(begin, end - begin).transpose(), right, s.trans_b, stripe);
    } else {
      EigenStripe(left.middleRows(begin, end - begin), right, s.trans_b, stripe);
    }
  });
}

}  // namespace

std::vector<GemmRate> MeasureGemm(ThreadPool& pool, const GemmShape& s, double seconds) {
  const OurProduct ours(s);
  const auto& g = ours.args();
  std::vector<GemmRate> rates;
  const auto add = [&](const char* library, const auto& run) {
    rates.push_back({Rate(s, seconds, run), library});
  };
  add("plimsoll", [&] { ours.Run(pool); });
  add("eigen", [&] { EigenProduct(pool, s, g.a, g.b, g.c); });
  const OptionalLibraries& libraries = Libraries(pool.size());
  const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
  if (libraries.cblas_sgemm != nullptr) {
    add("openblas", [&] {
      libraries.cblas_sgemm(kRowMajor, s.trans_a ? kTrans : kNoTrans, s.trans_b ? kTrans : kNoTrans,
                            m, n, k, 1, g.a, static_cast<int>(g.lda), g.b, static_cast<int>(g.ldb),
                            0, g.c, n);
    });
  }
  if (libraries.dnnl_sgemm != nullptr) {
    add("onednn", [&] {
      libraries.dnnl_sgemm(s.trans_a ? 'T' : 'N', s.trans_b ? 'T' : 'N', s.m, s.n, s.k, 1, g.a,
                           g.lda, g.b, g.ldb, 0, g.c, s.n);
    });
  }
  return rates;
}

GemmRate MeasureGemmPeak(ThreadPool& pool, double seconds) {
  GemmRate peak;
  for (const GemmShape& shape :
       {GemmShape{false, false, 2048, 2048, 2048}, GemmShape{false, false, 1024, 3072, 768}}) {
    for (const GemmRate& rate : MeasureGemm(pool, shape, seconds)) {
      if (rate.gflops > peak.gflops) peak = rate;
    }
  }
  return peak;
}

}  // namespace plimsoll::bench
