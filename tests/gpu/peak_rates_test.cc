#include "gpu/peak_rates.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::gpu {
namespace {

TEST(PeakRates, AreFoundByTheWordsOfAName) {
  const auto known = [](const char* name) {
    const PeakRates* const rates = FindPeakRates(name);
    return std::string(rates == nullptr ? "" : rates->name);
  };
  EXPECT_EQ(known("NVIDIA H200"), "NVIDIA H200");
  EXPECT_EQ(known("NVIDIA H200 NVL"), "NVIDIA H200 NVL");
  EXPECT_EQ(known("NVIDIA H100 80GB HBM3"), "NVIDIA H100");
  EXPECT_EQ(known("NVIDIA H100 PCIe"), "NVIDIA H100 PCIe");
  EXPECT_EQ(known("NVIDIA A100-SXM4-40GB"), "NVIDIA A100 40 GB");
  EXPECT_EQ(known("NVIDIA A100-SXM4-80GB"), "NVIDIA A100 80 GB");
  EXPECT_EQ(known("NVIDIA A100 40 GB"), "NVIDIA A100 40 GB");
  EXPECT_EQ(known("Tesla T4"), "NVIDIA T4");
  EXPECT_EQ(known("NVIDIA GeForce RTX 4090"), "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(known("NVIDIA GeForce RTX 4060 Ti"), "NVIDIA GeForce RTX 4060 Ti");
  EXPECT_EQ(known("NVIDIA RTX 6000 Ada Generation"), "NVIDIA RTX 6000 Ada Generation");
  EXPECT_EQ(known("NVIDIA RTX PRO 6000 Blackwell Server Edition"), "NVIDIA RTX PRO 6000 Blackwell");
  EXPECT_EQ(known("NVIDIA GB200"), "NVIDIA GB200");
  EXPECT_EQ(known("NVIDIA B200"), "NVIDIA B200");
  EXPECT_EQ(known("NVIDIA T400 4GB"), "");
  EXPECT_EQ(known(""), "");
}

TEST(PeakRates, AreNotThoseOfASisterCard) {
  for (const char* name :
       {"NVIDIA GeForce RTX 4060", "NVIDIA GeForce RTX 3060 Ti", "NVIDIA GeForce RTX 4070 SUPER",
        "NVIDIA GeForce RTX 4070 Ti SUPER", "NVIDIA GeForce RTX 4080 Laptop GPU", "Quadro RTX 6000",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"}) {
    EXPECT_EQ(FindPeakRates(name), nullptr) << name;
  }
}

// Each name in the table finds its own entry, and no entry lacks a rate.
TEST(PeakRates, AreWhole) {
  for (const char* name :
       {"NVIDIA T4", "NVIDIA A100 40 GB", "NVIDIA A100 80 GB", "NVIDIA H100", "NVIDIA H100 NVL",
        "NVIDIA H200", "NVIDIA GB200", "NVIDIA RTX A5000", "NVIDIA RTX 6000 Ada Generation",
        "NVIDIA RTX PRO 6000 Blackwell", "NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 3080",
        "NVIDIA GeForce RTX 4060 Ti", "NVIDIA GeForce RTX 4070", "NVIDIA GeForce RTX 4080",
        "NVIDIA GeForce RTX 5080"}) {
    const PeakRates* const rates = FindPeakRates(name);
    ASSERT_NE(rates, nullptr) << name;
    EXPECT_STREQ(rates->name, name);
    for (double rate : {rates->half, rates->tf32, rates->fp32, rates->memory, rates->link}) {
      EXPECT_GT(rate, 1e9) << name;
    }
    // Where matrix units multiply 8-bit floats, twice as fast as 16-bit ones.
    if (rates->fp8 > 0) {
      EXPECT_NEAR(rates->fp8 / rates->half, 2, 0.03) << name;
    }
    EXPECT_GE(rates->half, rates->tf32);
    EXPECT_GE(rates->tf32, rates->fp32);
  }
}

// From compute capability 8.9 on.
TEST(PeakRates, SayWhichCardsMultiplyEightBitFloats) {
  for (const char* name :
       {"NVIDIA H100", "NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA B200", "NVIDIA L4", "NVIDIA L40S",
        "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090", "NVIDIA RTX PRO 6000 Blackwell"}) {
    EXPECT_GT(FindPeakRates(name)->fp8, 0) << name;
  }
  for (const char* name : {"NVIDIA T4", "NVIDIA A100 80 GB", "NVIDIA A10", "NVIDIA RTX A6000",
                           "NVIDIA GeForce RTX 3090"}) {
    EXPECT_EQ(FindPeakRates(name)->fp8, 0) << name;
  }
}

}  // namespace
}  // namespace plimsoll::gpu
