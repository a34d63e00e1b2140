#include "model/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include "model/safetensors/writer.h"
#include "tests/model/bytes.h"
#include "tests/model/safetensors/bytes.h"

namespace cria::test {
namespace {

SafetensorsFile parse_safetensors(const std::string& bytes) {
  return SafetensorsFile::from_bytes(std::as_bytes(std::span(bytes)), "test.safetensors");
}

std::string file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Safetensors, EveryTypeAndShape) {
  SafetensorsBytes bytes;
  bytes.add("f64", "F64", {1}, std::string(8, 'a')).add("f32", "F32", {2, 3}, std::string(24, 'b'));
  bytes.add("scalar", "I64", {}, std::string(8, 'c')).add("none", "F16", {0, 4}, "");
  for (const char* type : {"F16", "BF16", "I16", "U16"})
    bytes.add(type, type, {3}, std::string(6, 'd'));
  for (const char* type : {"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"})
    bytes.add(type, type, {1, 1, 1}, "e");
  for (const char* type : {"I32", "U32"}) bytes.add(type, type, {1}, "four");
  bytes.add("U64", "U64", {1}, std::string(8, 'f'));
  const std::string file = bytes.file();
  const SafetensorsFile opened = parse_safetensors(file);
  ASSERT_EQ(opened.tensors().size(), 16U);
  EXPECT_EQ(opened.tensors()[0].name, "f64");
  const SafeTensor& matrix = opened.tensors()[1];
  EXPECT_EQ(matrix.shape_string(), "[2, 3]");
  EXPECT_EQ(matrix.values(), 6U);
  EXPECT_EQ(matrix.data[0], std::byte{'b'});
  EXPECT_EQ(matrix.data.data(),
            reinterpret_cast<const std::byte*>(file.data()) + file.find("bbbb"));
  EXPECT_EQ(opened.tensors()[2].values(), 1U);
  EXPECT_EQ(opened.tensors()[3].values(), 0U);
}

TEST(Safetensors, MetadataAndPaddingAreRead) {
  const std::string file = safetensors_file(
      R"({"__metadata__":{"format":"pt","a":""},"x":{"shape":[1],"data_offsets":[0,1],"dtype":"U8"}}    )",
      "x");
  const SafetensorsFile opened = parse_safetensors(file);
  EXPECT_EQ(opened.metadata().at("format"), "pt");
  EXPECT_EQ(opened.metadata().size(), 2U);
  EXPECT_EQ(opened.tensors().size(), 1U);
  EXPECT_TRUE(parse_safetensors(safetensors_file("{}", "")).tensors().empty());
}

TEST(Safetensors, TensorsComeInTheOrderOfTheirData) {
  const std::string file = safetensors_file(
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
      "ab");
  EXPECT_EQ(parse_safetensors(file).tensors()[0].name, "a");
}

struct SafetensorsDefect {
  std::string name, file, says;
};

std::string header_with(const std::string& fields) {
  return safetensors_file("{\"x\":{" + fields + "}}", "0123");
}
std::string length_and(std::uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), 8) + rest;
}

const std::string kGoodFields = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";

const SafetensorsDefect kSafetensorsDefects[] = {
    {"Empty", "", "expected at least 9 bytes, got 0"},
    {"EightBytes", std::string(8, '\0'), "expected at least 9 bytes, got 8"},
    {"LengthZero", length_and(0, "{}"), "not JSON"},
    {"LengthPastTheEnd", length_and(3, "{}"),
     "bad length of the header: expected at most 2 bytes, got 3 (at byte 0)"},
    {"LengthHuge", length_and(~std::uint64_t{0}, "{}"), "bad length of the header"},
    {"LengthAboveTheLimit", length_and(200'000'000, "{}" + std::string(64, ' ')),
     "bad length of the header"},
    {"Gguf", "GGUF" + std::string(60, '\0'), "expected a header that begins with {"},
    {"Html", "<!DOCTYPE html><html></html>", "an HTML page"},
    {"HeaderNoJson", safetensors_file("{\"x\":}", ""), "the header is not JSON (at byte 13)"},
    {"HeaderEnds", safetensors_file("{\"x\":{\"dtype\":\"U8\"", ""), "not JSON"},
    {"HeaderIsFollowed", safetensors_file("{}{}", ""), "not JSON"},
    {"InvalidUtf8", safetensors_file("{\"\xFF\":{}}", ""), "not JSON"},
    {"Deep", safetensors_file("{\"x\":" + std::string(100'000, '['), ""), "expected {\"NAME\""},
    {"DeepObjects", safetensors_file(R"({"x":{"dtype":{"x":{"x":{}}}}})", ""),
     "expected {\"NAME\""},
    {"DeepShape", header_with(R"("dtype":"U8","shape":[[4]],"data_offsets":[0,4])"),
     "expected {\"NAME\""},
    {"TensorIsNoObject", safetensors_file(R"({"x":3})", ""), "got a number"},
    {"MetadataIsNoText", safetensors_file(R"({"__metadata__":{"a":1}})", ""), "got a number"},
    {"MetadataTwice", safetensors_file(R"({"__metadata__":{"a":"","a":""}})", ""), "stands twice"},
    {"NameTwice",
     safetensors_file("{\"x\":{" + kGoodFields + "},\"x\":{" + kGoodFields + "}}", "0123"),
     "a name stands twice (tensor x)"},
    {"NameEmpty", safetensors_file("{\"\":{" + kGoodFields + "}}", "0123"), "no name"},
    {"NameWithNul", safetensors_file("{\"a\\u0000b\":{" + kGoodFields + "}}", "0123"), "NUL"},
    {"NameTooLong",
     safetensors_file("{\"" + std::string(70'000, 'n') + "\":{" + kGoodFields + "}}", "0123"),
     "name too long"},
    {"FieldTwice", header_with(R"("dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4])"),
     "a field stands twice: dtype"},
    {"FieldUnknown", header_with(kGoodFields + R"(,"strides":[1])"), "unknown field"},
    {"NoType", header_with(R"("shape":[4],"data_offsets":[0,4])"), "a field is missing"},
    {"NoShape", header_with(R"("dtype":"U8","data_offsets":[0,4])"), "a field is missing"},
    {"NoOffsets", header_with(R"("dtype":"U8","shape":[4])"), "a field is missing"},
    {"TypeUnknown", header_with(R"("dtype":"F12","shape":[4],"data_offsets":[0,4])"),
     "unknown type: expected one of F64"},
    {"TypeIsNoText", header_with(R"("dtype":8,"shape":[4],"data_offsets":[0,4])"), "got a number"},
    {"TypeNull", header_with(R"("dtype":null,"shape":[4],"data_offsets":[0,4])"), "got null"},
    {"ShapeNegative", header_with(R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])"), "negative"},
    {"ShapeFraction", header_with(R"("dtype":"U8","shape":[4.5],"data_offsets":[0,4])"),
     "not an integer"},
    {"ShapeLarge",
     header_with(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4])"),
     "not an integer"},
    {"ShapeWraps",
     header_with(R"("dtype":"U8","shape":[4294967296,4294967297],"data_offsets":[0,4294967296])"),
     "2^64"},
    {"BytesWrap",
     header_with(R"("dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8])"), "2^64"},
    {"ShapeTooManyDimensions",
     header_with(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,4])"),
     "too many dimensions"},
    {"OffsetsOne", header_with(R"("dtype":"U8","shape":[4],"data_offsets":[4])"),
     "expected two numbers, got 1"},
    {"OffsetsThree", header_with(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])"),
     "expected two numbers, got 3"},
    {"OffsetsBackward", header_with(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"),
     "do not fit"},
    {"OffsetsDoNotFit", header_with(R"("dtype":"F32","shape":[4],"data_offsets":[0,4])"),
     "expected 16 bytes, got 0 to 4 (tensor x)"},
    {"OffsetsPastTheEnd", header_with(R"("dtype":"U8","shape":[5],"data_offsets":[0,5])"),
     "past the end of the file: expected at most 4, got 5"},
    {"HoleAtTheStart", header_with(R"("dtype":"U8","shape":[3],"data_offsets":[1,4])"),
     "a hole before the data"},
    {"BytesAtTheEnd", header_with(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"),
     "bytes after the last tensor"},
    {"Overlap",
     safetensors_file(
         R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
         "0123"),
     "data overlap: expected to begin at 3, got 2 (tensor b)"},
    {"Hole",
     safetensors_file(
         R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
         "0123"),
     "a hole before the data: expected to begin at 1, got 2 (tensor b)"},
};

class BadSafetensors : public testing::TestWithParam<SafetensorsDefect> {};

TEST_P(BadSafetensors, IsRefused) {
  const std::string message = error_of([&] { return parse_safetensors(GetParam().file); });
  EXPECT_EQ(message.find("test.safetensors: "), 0U) << message;
  EXPECT_NE(message.find(GetParam().says), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Defects, BadSafetensors, testing::ValuesIn(kSafetensorsDefects),
                         case_name<SafetensorsDefect>);

TEST(Safetensors, EveryPrefixIsRefused) {
  const std::string file =
      SafetensorsBytes().add("x", "F32", {2}, "01234567").add("y", "U8", {1}, "8").file();
  for (std::size_t n = 0; n < file.size(); ++n)
    EXPECT_NE(error_of([&] { return parse_safetensors(file.substr(0, n)); }), "") << n;
}

struct DirectoryCase {
  TemporaryDirectory directory;
  std::string first = SafetensorsBytes().add("a", "U8", {1}, "a").file();
  std::string second = SafetensorsBytes().add("b", "U8", {1}, "b").file();

  void index(const std::string& map) const {
    directory.write("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  }
  [[nodiscard]] std::string error() const {
    return error_of([&] { return SafetensorsDirectory::open(directory.file("")); });
  }
};

TEST(SafetensorsDirectory, ShardsByTheirIndex) {
  const DirectoryCase files;
  files.directory.write("one.safetensors", files.first);
  files.directory.write("two.safetensors", files.second);
  files.directory.write("another.safetensors", "not named by the index, so not opened");
  files.index(R"("a":"one.safetensors","b":"two.safetensors")");
  const auto opened = SafetensorsDirectory::open(files.directory.file(""));
  EXPECT_EQ(opened.files().size(), 2U);
  ASSERT_NE(opened.tensor("b"), nullptr);
  EXPECT_EQ(opened.tensor("b")->data[0], std::byte{'b'});
  EXPECT_EQ(opened.tensor("c"), nullptr);
}

TEST(SafetensorsDirectory, OneFileOrAllOfThem) {
  const DirectoryCase files;
  files.directory.write("weights.00.safetensors", files.first);
  files.directory.write("weights.01.safetensors", files.second);
  EXPECT_EQ(SafetensorsDirectory::open(files.directory.file("")).tensors().size(), 2U);
  files.directory.write("model.safetensors", files.first);
  EXPECT_EQ(SafetensorsDirectory::open(files.directory.file("")).tensors().size(), 1U);
}

TEST(SafetensorsDirectory, NamesTheFaultyFile) {
  const DirectoryCase files;
  EXPECT_NE(files.error().find("no weights: expected model.safetensors"), std::string::npos)
      << files.error();
  files.directory.write("pytorch_model.bin", "");
  EXPECT_NE(files.error().find("are not read"), std::string::npos) << files.error();
  files.directory.write("one.safetensors", files.first);
  files.directory.write("same.safetensors", files.first);
  EXPECT_NE(files.error().find("a tensor that another file has too (tensor a)"), std::string::npos)
      << files.error();
  files.index(R"("a":"one.safetensors","c":"one.safetensors")");
  EXPECT_NE(
      files.error().find("no shard holds a tensor: expected it in one.safetensors (tensor c)"),
      std::string::npos)
      << files.error();
  files.index(R"("a":"gone.safetensors")");
  EXPECT_NE(files.error().find("gone.safetensors: cannot open"), std::string::npos)
      << files.error();
  files.index(R"("a":7)");
  EXPECT_NE(files.error().find("bad weight_map"), std::string::npos) << files.error();
  files.index("");
  EXPECT_NE(files.error().find("no weight_map"), std::string::npos) << files.error();
  EXPECT_NE(error_of([&] {
              return SafetensorsDirectory::open(files.directory.file("nowhere"));
            }).find("not a directory"),
            std::string::npos);
}

TEST(SafetensorsDirectory, ShardsCannotLieElsewhere) {
  const DirectoryCase files;
  for (const std::string name :
       {"../model.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ".", "", "a\\u0000b"}) {
    files.index("\"a\":\"" + name + "\"");
    EXPECT_NE(files.error().find("expected one in the same directory"), std::string::npos)
        << name << ": " << files.error();
  }
}

const SafetensorsType* value_type(const char* name) { return find_safetensors_type(name); }

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("m.safetensors");
  for (int twice = 0; twice < 2; ++twice) {
    const std::string before = twice == 0 ? "" : file_content(path);
    SafetensorsWriter writer(path,
                             {{"a", value_type("F32"), {2, 1}},
                              {"b\"\n", value_type("BF16"), {3}},
                              {"none", value_type("F16"), {0}}},
                             {{"format", "pt"}});
    writer.write(std::as_bytes(std::span("01234567", 5)));
    writer.write(std::as_bytes(std::span("567abcdef", 9)));
    writer.finish();
    if (twice == 1) {
      EXPECT_EQ(file_content(path), before) << "the same bytes again";
    }
  }
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].shape_string(), "[2, 1]");
  const SafeTensor& odd = file.tensors()[1].name == "none" ? file.tensors()[2] : file.tensors()[1];
  EXPECT_EQ(odd.name, "b\"\n");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(odd.data.data()), 6), "abcdef");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.tensors()[0].data.data()) % 8, 0U);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(SafetensorsWriter, UnfinishedFilesKeepTheTarget) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("m.safetensors", "old");
  {
    SafetensorsWriter writer(path, {{"a", value_type("U8"), {4}}});
    writer.write(std::as_bytes(std::span("01", 2)));
    EXPECT_EQ(error_of([&] { writer.finish(); }),
              path + ": data is missing: expected 4 bytes, got 2");
  }
  EXPECT_EQ(file_content(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.file("")), {}), 1);
  const std::string nowhere = directory.file("nowhere/m.safetensors");
  EXPECT_EQ(error_of([&] { SafetensorsWriter(nowhere, {}); }),
            nowhere + ": cannot write: No such file or directory");
}

TEST(SafetensorsWriter, ShardsBySize) {
  const std::vector<SafetensorsDeclaration> tensors = {{"a", value_type("F16"), {3}},
                                                       {"b", value_type("F32"), {1}},
                                                       {"c", value_type("F32"), {100}},
                                                       {"d", value_type("F16"), {1}}};
  EXPECT_EQ(plan_shards(tensors, 1 << 20).size(), 1U);
  EXPECT_EQ(plan_shards(tensors, 1 << 20)[0].file, "model.safetensors");
  EXPECT_EQ(plan_shards(tensors, 1 << 20)[0].tensors[0].name, "b") << "wide values first";
  const auto shards = plan_shards(tensors, 10);
  ASSERT_EQ(shards.size(), 3U);
  EXPECT_EQ(shards[0].file, "model-00001-of-00003.safetensors");
  EXPECT_EQ(shards[0].tensors.size(), 2U);
  EXPECT_EQ(shards[1].tensors[0].name, "c") << "larger than a shard: alone";
  const std::string index = shard_index(shards);
  EXPECT_NE(index.find("\"total_size\": 412"), std::string::npos) << index;
  EXPECT_NE(index.find("\"d\": \"model-00003-of-00003.safetensors\""), std::string::npos) << index;
}

}  // namespace
}  // namespace cria::test
