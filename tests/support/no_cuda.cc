// Replaces a test of CUDA code in builds without CUDA.
#include <gtest/gtest.h>

TEST(Cuda, IsPartOfThisBuild) { GTEST_SKIP() << "built without --config=cuda"; }
