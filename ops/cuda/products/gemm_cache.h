// The file of measured choices of one GPU model and cuBLAS version: text, one line per problem.
//
//   plimsoll matrix products 2
//   NVIDIA H200, compute capability 9.0, 132 multiprocessors, cublasLt 130100
//   KEY ALGORITHM MICROSECONDS           the algorithm: 64 bytes, cuBLASLt's or those of a form of
//                                        ours (gemm_call.h), as 128 hexadecimal digits
//   checksum 0123456789abcdef            of all lines before, FNV-1a
#pragma once

#include <cublasLt.h>

#include <map>
#include <string>

namespace plimsoll::ops {

struct GemmMeasurement {
  cublasLtMatmulAlgo_t algorithm;
  double microseconds;
};

// Sorted by the problems' keys, which contain no spaces.
using GemmMeasurements = std::map<std::string, GemmMeasurement, std::less<>>;

// Empty when there is no file. Throws a UserError naming the file when it is for another device, or
// damaged.
GemmMeasurements ReadGemmMeasurements(const std::string& path, const std::string& device);

// Replaces the file, or leaves it unchanged on a UserError; creates its folder.
void WriteGemmMeasurements(const std::string& path, const std::string& device,
                           const GemmMeasurements& measurements);

}  // namespace plimsoll::ops
