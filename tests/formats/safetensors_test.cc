#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::formats {
namespace {

constexpr char kWayOut[] = "; the file is damaged or incomplete, fetch or write it again";

std::string File(const std::string& header, size_t data_bytes) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file + header + std::string(data_bytes, '\1');
}

SafetensorsReader Open(const std::string& bytes) {
  return SafetensorsReader(std::as_bytes(std::span(bytes)), "m.safetensors");
}

std::string OpenError(const std::string& bytes) {
  return UserErrorOf([&] { Open(bytes); });
}

// The error's reason for a header, without the file's name and the advice.
std::string Reason(const std::string& header, size_t data_bytes) {
  const std::string message = OpenError(File(header, data_bytes));
  const std::string front = "m.safetensors: ";
  EXPECT_EQ(message.rfind(front, 0), 0u) << message;
  EXPECT_GE(message.size(), front.size() + sizeof(kWayOut) - 1) << message;
  const size_t end = message.size() - (sizeof(kWayOut) - 1);
  EXPECT_EQ(message.substr(end), kWayOut);
  return message.substr(front.size(), end - front.size());
}

std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const std::string bytes =
      File("{\"__metadata__\":{\"format\":\"pt\"}," + Entry("w", "\"U8\"", "[2,2]", "[0,4]") + "," +
               Entry("a", "\"I16\"", "[1]", "[4,6]") + "," + Entry("s", "\"U8\"", "[]", "[6,7]") +
               "}   ",
           7);
  const SafetensorsReader reader = Open(bytes);
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  ASSERT_EQ(reader.tensors().size(), 3u);
  EXPECT_EQ(reader.tensors()[0].name, "a");
  EXPECT_EQ(reader.Require("w").shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(reader.Require("s").elements, 1);
  EXPECT_EQ(reader.Raw("a").size(), 2u);
  EXPECT_EQ(reader.Raw("a").data(),
            reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size() - 7 + 4);
  EXPECT_EQ(reader.Find("b"), nullptr);
  EXPECT_EQ(reader.Find("z"), nullptr);
  EXPECT_EQ(
      UserErrorOf([&] { reader.Raw("b\n"); }),
      "m.safetensors: no tensor \"b\\x0a\" among its 3; is it a checkpoint of another model?");
}

TEST(Safetensors, AnEmptyHeaderHoldsNoTensors) {
  EXPECT_TRUE(Open(File("{}", 0)).tensors().empty());
}

TEST(Safetensors, ATruncatedOrLyingLengthIsAnError) {
  EXPECT_EQ(OpenError(""),
            std::string("m.safetensors: 0 bytes are too few for a safetensors file") + kWayOut);
  EXPECT_EQ(OpenError("1234567"),
            std::string("m.safetensors: 7 bytes are too few for a safetensors file") + kWayOut);
  std::string file = File("{}", 0);
  file[0] = 3;
  EXPECT_EQ(OpenError(file),
            std::string("m.safetensors: claims a header of 3 bytes, but only 2 follow") + kWayOut);
  file.replace(0, 8, 8, '\xff');
  EXPECT_EQ(OpenError(file),
            std::string("m.safetensors: claims a header of 18446744073709551615 bytes, more than "
                        "the format's limit of 100000000") +
                kWayOut);
}

TEST(Safetensors, EveryPrefixOfAFileIsAnError) {
  const std::string file = File("{" + Entry("w", "\"F32\"", "[3]", "[0,12]") + "}", 12);
  EXPECT_NO_THROW(Open(file));
  for (size_t size = 0; size < file.size(); ++size) OpenError(file.substr(0, size));
  OpenError(file + "x");
}

TEST(Safetensors, HeadersThatAreNotJsonAreErrors) {
  EXPECT_EQ(Reason("", 0), "the header is not a JSON object");
  EXPECT_EQ(Reason("[]", 0), "the header is not a JSON object");
  EXPECT_EQ(Reason(" {}", 0), "the header is not a JSON object");
  EXPECT_EQ(OpenError(File("{\"a\"}", 0)).rfind("m.safetensors: header: not valid JSON: ", 0), 0u);
  EXPECT_EQ(OpenError(File("{\"a\":{},\"a\":{}}", 0)),
            "m.safetensors: header: key \"a\" appears twice in one object; keep one");
}

TEST(Safetensors, MetadataHoldsStringsOnly) {
  EXPECT_EQ(Reason("{\"__metadata__\":[]}", 0), "__metadata__ is not an object");
  EXPECT_EQ(Reason("{\"__metadata__\":{\"k\":1}}", 0), "__metadata__: \"k\" is not a string");
}

TEST(Safetensors, MalformedEntriesAreErrors) {
  const std::string shape_error = "tensor \"w\": shape holds something other than sizes";
  const std::string offset_error = "tensor \"w\": data_offsets is not a pair of offsets";
  const std::string fields = "tensor \"w\": expected an object with dtype, shape and data_offsets";
  EXPECT_EQ(Reason("{\"w\":1}", 0), fields);
  EXPECT_EQ(Reason("{\"w\":{\"dtype\":\"F32\",\"shape\":[]}}", 0), fields);
  EXPECT_EQ(Reason("{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":0}}", 4),
            fields);
  const auto reason = [](const char* dtype, const char* shape, const char* offsets) {
    return Reason("{" + Entry("w", dtype, shape, offsets) + "}", 4);
  };
  EXPECT_EQ(reason("1", "[1]", "[0,4]"), "tensor \"w\": dtype is not a string");
  EXPECT_EQ(reason("\"F32\"", "1", "[0,4]"), "tensor \"w\": shape is not an array");
  EXPECT_EQ(reason("\"F32\"", "[-1]", "[0,4]"), shape_error);
  EXPECT_EQ(reason("\"F32\"", "[1.0]", "[0,4]"), shape_error);
  EXPECT_EQ(reason("\"F32\"", "[9223372036854775808]", "[0,4]"), shape_error);
  EXPECT_EQ(reason("\"F32\"", "[18446744073709551616]", "[0,4]"), shape_error);
  EXPECT_EQ(reason("\"F32\"", "[1]", "[0]"), offset_error);
  EXPECT_EQ(reason("\"F32\"", "[1]", "[0,4,4]"), offset_error);
  EXPECT_EQ(reason("\"F32\"", "[1]", "{}"), offset_error);
  EXPECT_EQ(reason("\"F32\"", "[1]", "[-4,0]"), offset_error);
  EXPECT_EQ(reason("\"F32\"", "[1]", "[0,\"4\"]"), offset_error);
  EXPECT_EQ(reason("\"F32\"", "[1]", "[4,0]"), "tensor \"w\": data_offsets [4, 0] run backwards");
  EXPECT_EQ(reason("\"F32\"", "[2]", "[0,8]"),
            "tensor \"w\": data_offsets [0, 8] pass the end of the 4 bytes of data");
  EXPECT_EQ(reason("\"F32\"", "[2,3]", "[0,4]"),
            "tensor \"w\": data_offsets [0, 4] hold 4 bytes, but F32 [2, 3] takes 24");
  EXPECT_EQ(OpenError(File("{" + Entry("w", "\"Q4\"", "[1]", "[0,4]") + "}", 4)),
            "m.safetensors: tensor \"w\": dtype Q4 is unknown; convert it to F32 or BF16");
}

TEST(Safetensors, ShapesThatOverflowAreErrors) {
  EXPECT_EQ(Reason("{" + Entry("w", "\"F32\"", "[4294967296,4294967296]", "[0,0]") + "}", 0),
            "tensor \"w\": shape [4294967296, 4294967296] is too large to address");
  EXPECT_EQ(Reason("{" + Entry("w", "\"F32\"", "[4611686018427387904]", "[0,0]") + "}", 0),
            "tensor \"w\": shape [4611686018427387904] is too large to address");
  // A zero makes the tensor empty, however large the other dimensions are.
  EXPECT_NO_THROW(
      Open(File("{" + Entry("w", "\"F32\"", "[4294967296,4294967296,0]", "[0,0]") + "}", 0)));
}

TEST(Safetensors, TheDataIsCoveredExactlyOnce) {
  const auto two = [](const char* first, const char* second, size_t data_bytes) {
    return Reason(
        "{" + Entry("a", "\"U8\"", "[4]", first) + "," + Entry("b", "\"U8\"", "[4]", second) + "}",
        data_bytes);
  };
  EXPECT_EQ(two("[0,4]", "[2,6]", 6), "tensor \"b\": overlaps another tensor");
  EXPECT_EQ(two("[0,4]", "[0,4]", 4), "tensor \"b\": overlaps another tensor");
  EXPECT_EQ(two("[0,4]", "[5,9]", 9),
            "tensor \"b\": begins at 5, but the data before it ends at 4");
  EXPECT_EQ(two("[1,5]", "[5,9]", 9),
            "tensor \"a\": begins at 1, but the data before it ends at 0");
  EXPECT_EQ(two("[0,4]", "[4,8]", 9), "the tensors take 8 bytes, but 9 bytes of data are there");
  EXPECT_EQ(Reason("{}", 1), "the tensors take 0 bytes, but 1 byte of data is there");
}

TEST(Safetensors, ReadsFilesOfThePythonPackage) {
  const std::string folder = "tests/formats/testdata/";
  const SafetensorsReader reader(folder + "numpy.safetensors");
  EXPECT_EQ(reader.metadata().at("note"), "écrit ailleurs");
  EXPECT_EQ(reader.tensors().size(), 8u);
  const auto read = [](const SafetensorsReader& file, const char* name, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    file.ReadFloat32(name, values.data(), count);
    return values;
  };
  EXPECT_EQ(reader.Require("f32").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read(reader, "f32", 6), (std::vector<float>{1.5f, -2.25f, 3, 0, 1e-40f, 65504}));
  EXPECT_EQ(read(reader, "f16", 4), (std::vector<float>{1, -0.5f, 65504, 0x1p-24f}));
  EXPECT_EQ(read(reader, "f64", 2),
            (std::vector<float>{0.1f, -std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(read(reader, "scalar", 1), std::vector<float>{7});
  EXPECT_EQ(read(reader, "empty", 0), std::vector<float>{});
  EXPECT_EQ(reader.Require("flags").type, TensorType::kBool);
  EXPECT_EQ(reader.Require("i8").type, TensorType::kI8);
  int64_t integers[2];
  ASSERT_EQ(reader.Raw("i64").size(), sizeof(integers));
  std::memcpy(integers, reader.Raw("i64").data(), sizeof(integers));
  EXPECT_EQ(integers[0], -1);
  EXPECT_EQ(integers[1], int64_t{1} << 62);

  const SafetensorsReader bf16(folder + "bf16.safetensors");
  EXPECT_EQ(read(bf16, "bf16", 4),
            (std::vector<float>{1, -2, 0x1p-133f, std::numeric_limits<float>::infinity()}));

  float out[2];
  EXPECT_EQ(UserErrorOf([&] { reader.ReadFloat32("i64", out, 2); }),
            folder +
                "numpy.safetensors: tensor \"i64\": I64 cannot be read as floating-point "
                "numbers; convert it to F32 or BF16");
  EXPECT_EQ(UserErrorOf([&] { reader.ReadFloat32("f32", out, 2); }),
            folder +
                "numpy.safetensors: tensor \"f32\": shape [2, 3] has 6 elements, but the "
                "model needs 2; is it a checkpoint of another model?");
}

TEST(Safetensors, AMissingFileIsNamed) {
  const TempFolder folder;
  const std::string path = folder / "none.safetensors";
  EXPECT_EQ(UserErrorOf([&] { SafetensorsReader reader(path); }).rfind(path + ": ", 0), 0u);
}

}  // namespace
}  // namespace plimsoll::formats
