// One case per defect: the error must name it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "tests/model/bytes.h"

namespace cria::test {
namespace {

constexpr std::uint64_t kMax = ~std::uint64_t{0};

struct FileDefect {
  const char* name;
  const char* expected;  // part of the error text
  std::function<Bytes()> build;
};

void PrintTo(const FileDefect& defect, std::ostream* out) { *out << defect.name; }

class BadFile : public testing::TestWithParam<FileDefect> {};

TEST_P(BadFile, IsRefused) {
  const std::string bytes = GetParam().build().data;
  const std::vector<char> exact(bytes.begin(),
                                bytes.end());  // a heap block of its own, for ASan's sake
  const std::string text =
      error_of([&] { GgufFile::from_bytes(std::as_bytes(std::span(exact)), "test.gguf"); });
  EXPECT_TRUE(text.starts_with("test.gguf: ")) << text;
  EXPECT_NE(text.find(GetParam().expected), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

Bytes raw(std::string_view text) { return Bytes().raw(text); }
Bytes version(std::uint32_t number) { return Bytes().raw("GGUF").put(number).zeros(64); }
Bytes key(std::string_view name, GgufType type) { return Bytes().header(0, 1).key(name, type); }
Bytes array(std::uint32_t element, std::uint64_t count) {
  return key("list", GgufType::Array).put(element).count(count).zeros(64);
}
Bytes alignment(std::uint32_t value) { return key("general.alignment", GgufType::U32).put(value); }

Bytes nested(int levels) {
  Bytes bytes = key("list", GgufType::Array);
  for (int i = 1; i < levels; ++i) bytes.put<std::uint32_t>(9).count(1);
  return bytes.put<std::uint32_t>(0).count(0);
}

// One tensor and plenty of data behind it.
Bytes tensor(std::string_view name, std::initializer_list<std::uint64_t> shape, std::uint32_t type,
             std::uint64_t offset) {
  return Bytes().header(1, 0).tensor(name, shape, type, offset).pad().zeros(4096);
}

INSTANTIATE_TEST_SUITE_P(
    File, BadFile,
    testing::Values(
        FileDefect{"Empty", "file is empty", [] { return Bytes(); }},
        FileDefect{"OneByte", "got the bytes 47", [] { return raw("G"); }},
        FileDefect{"ThreeBytes", "not a GGUF file", [] { return raw("GGU"); }},
        FileDefect{"WrongMagic", "got the bytes 41 42 43 44 (at byte 0)",
                   [] { return raw("ABCDEFGH"); }},
        FileDefect{"SwappedMagic", "swapped bytes", [] { return raw("FUGG").zeros(64); }},
        FileDefect{"Ggml", "GGML file", [] { return raw("lmgg").zeros(64); }},
        FileDefect{"Ggmf", "GGMF file", [] { return raw("fmgg").zeros(64); }},
        FileDefect{"Ggjt", "GGJT file", [] { return raw("tjgg").zeros(64); }},
        FileDefect{"Ggla", "GGLA adapter", [] { return raw("algg").zeros(64); }},
        FileDefect{"Html", "HTML page", [] { return raw("\n <!DOCTYPE html><html>"); }},
        FileDefect{"LfsPointer", "Git LFS pointer",
                   [] { return raw("version https://git-lfs.github.com/spec/v1\n"); }},
        FileDefect{"Safetensors", "safetensors",
                   [] { return Bytes().put<std::uint64_t>(20).raw("{\"__metadata__\":{}}"); }},
        FileDefect{"Zip", "zip archive", [] { return raw("PK\x03\x04....."); }},
        FileDefect{"Version0", "expected 1 to 3, got 0", [] { return version(0); }},
        FileDefect{"Version4", "expected 1 to 3, got 4", [] { return version(4); }},
        FileDefect{"VersionMax", "expected 1 to 3", [] { return version(UINT32_MAX); }},
        FileDefect{"BigEndian", "big-endian", [] { return version(0x03000000); }},
        FileDefect{"TensorCountHuge", "impossible tensor count",
                   [] { return Bytes().header(kMax, 0).zeros(64); }},
        FileDefect{"KeyCountHuge", "impossible key count",
                   [] { return Bytes().header(0, kMax).zeros(64); }},
        FileDefect{"KeyCountAboveBytes", "expected at most 4, got 5",
                   [] { return Bytes().header(0, 5).zeros(60); }},
        FileDefect{
            "JoinedShards", "another GGUF file follows",
            [] { return Bytes().header(1, 0).tensor("a", {1}, 0, 0).pad().zeros(4).raw("GGUF"); }}),
    case_name<FileDefect>);

INSTANTIATE_TEST_SUITE_P(
    Keys, BadFile,
    testing::Values(
        FileDefect{"EmptyKey", "empty key (at byte 24)",
                   [] { return key("", GgufType::U8).zeros(64); }},
        FileDefect{"KeyPastEnd", "file ends inside a key",
                   [] { return Bytes().header(0, 1).count(1000).zeros(64); }},
        FileDefect{"KeyLengthMax", "a key is too long",
                   [] { return Bytes().header(0, 1).count(kMax).zeros(64); }},
        FileDefect{"NulInKey", "NUL byte in a key",
                   [] { return key(std::string_view("a\0b", 3), GgufType::U8).zeros(64); }},
        FileDefect{"KeyNotUtf8", "key is not UTF-8",
                   [] { return key("a\xFF", GgufType::U8).zeros(64); }},
        FileDefect{"KeyOverlongUtf8", "key is not UTF-8",
                   [] { return key("\xC0\xAF", GgufType::U8).zeros(64); }},
        FileDefect{"DuplicateKey", "duplicate key (key a)",
                   [] {
                     return Bytes()
                         .header(0, 2)
                         .key("a", GgufType::U8)
                         .zeros(1)
                         .key("a", GgufType::U8)
                         .zeros(64);
                   }},
        FileDefect{"ControlCharacters", "bad bool: expected 0 or 1, got 2 (key a?b?[31m, at byte",
                   [] { return key("a\nb\x1b[31m", GgufType::Bool).put<std::uint8_t>(2); }},
        FileDefect{"UnknownType", "expected 0 to 12, got 13 (key a, at byte",
                   [] { return key("a", GgufType{13}).zeros(64); }},
        FileDefect{"UnknownTypeMax", "unknown value type",
                   [] { return key("a", GgufType{UINT32_MAX}).zeros(64); }},
        FileDefect{"StringPastEnd", "file ends inside a string",
                   [] { return key("a", GgufType::String).count(100).zeros(64); }},
        FileDefect{"StringLengthMax", "a string is too long",
                   [] { return key("a", GgufType::String).count(kMax).zeros(64); }},
        FileDefect{"UnknownElement", "unknown value type", [] { return array(13, 1); }},
        FileDefect{"NestedTooDeep", "nested too deep", [] { return nested(9); }},
        FileDefect{"NestedEndless", "nested too deep", [] { return nested(100000); }},
        FileDefect{"ArrayWraps", "array too long",
                   [] { return array(10, (std::uint64_t{1} << 61) + 1); }},
        FileDefect{"ArrayPastEnd", "file ends inside an array: expected 800 more bytes, got 64",
                   [] { return array(10, 100); }},
        FileDefect{"ArrayOfStringsPastEnd", "file ends inside a string",
                   [] { return array(8, 100); }},
        FileDefect{"Bool2", "expected 0 or 1, got 2",
                   [] { return key("a", GgufType::Bool).put<std::uint8_t>(2); }},
        FileDefect{
            "Bool2InArray", "expected 0 or 1, got 2",
            [] { return key("a", GgufType::Array).put<std::uint32_t>(7).count(2).raw("\1\2"); }},
        FileDefect{"Alignment0", "bad alignment", [] { return alignment(0); }},
        FileDefect{"Alignment3", "bad alignment", [] { return alignment(3); }},
        FileDefect{"Alignment4", "bad alignment", [] { return alignment(4); }},
        FileDefect{"AlignmentHuge", "bad alignment", [] { return alignment(1U << 31); }},
        FileDefect{"AlignmentFloat",
                   "expected an unsigned integer, got f32 (key general.alignment)",
                   [] { return key("general.alignment", GgufType::F32).put(32.0F); }}),
    case_name<FileDefect>);

INSTANTIATE_TEST_SUITE_P(
    Tensors, BadFile,
    testing::Values(
        FileDefect{"EmptyName", "empty tensor name", [] { return tensor("", {1}, 0, 0); }},
        FileDefect{"NameLengthHuge", "a tensor name is too long",
                   [] { return Bytes().header(1, 0).count(kMax).zeros(64); }},
        FileDefect{"NulInName", "NUL byte in a tensor name",
                   [] { return tensor(std::string_view("a\0", 2), {1}, 0, 0); }},
        FileDefect{"NameNotUtf8", "not UTF-8", [] { return tensor("\xED\xA0\x80", {1}, 0, 0); }},
        FileDefect{"DuplicateName", "duplicate tensor (tensor a)",
                   [] {
                     return Bytes()
                         .header(2, 0)
                         .tensor("a", {1}, 0, 0)
                         .tensor("a", {1}, 0, 32)
                         .pad()
                         .zeros(64);
                   }},
        FileDefect{"Dimensions0", "expected 1 to 4, got 0 (tensor a)",
                   [] { return tensor("a", {}, 0, 0); }},
        FileDefect{"Dimensions5", "expected 1 to 4, got 5",
                   [] {
                     return tensor("a", {1, 1, 1, 1, 1}, 0, 0);
                   }},
        FileDefect{"DimensionsMax", "expected 1 to 4",
                   [] { return Bytes().header(1, 0).string("a").put(UINT32_MAX).zeros(64); }},
        FileDefect{"DimensionZero", "a dimension is 0",
                   [] {
                     return tensor("a", {4, 0}, 0, 0);
                   }},
        FileDefect{"DimensionHuge", "tensor size overflows",
                   [] { return tensor("a", {std::uint64_t{1} << 63}, 0, 0); }},
        FileDefect{"ProductOverflows", "tensor size overflows",
                   [] {
                     return tensor(
                         "a", {(std::uint64_t{1} << 42) + 1, (std::uint64_t{1} << 42) + 1}, 0, 0);
                   }},
        FileDefect{"BytesOverflow", "tensor size overflows",
                   [] { return tensor("a", {std::uint64_t{1} << 62}, 0, 0); }},
        FileDefect{"RowNotABlock", "expected a multiple of 32 for Q4_0, got 33",
                   [] { return tensor("a", {33}, 2, 0); }},
        FileDefect{"RowNotASuperBlock", "expected a multiple of 256 for Q4_K, got 32",
                   [] {
                     return tensor("a", {32, 8}, 12, 0);
                   }},
        FileDefect{"RemovedType4", "unknown tensor type: got 4, removed",
                   [] { return tensor("a", {32}, 4, 0); }},
        FileDefect{"RemovedType31", "unknown tensor type: got 31, removed",
                   [] { return tensor("a", {32}, 31, 0); }},
        FileDefect{"RemovedType38", "unknown tensor type: got 38, removed",
                   [] { return tensor("a", {32}, 38, 0); }},
        FileDefect{"TypeOfAFork", "ik_llama.cpp fork", [] { return tensor("a", {256}, 396, 0); }},
        FileDefect{"TypeMax", "unknown tensor type: got 4294967295",
                   [] { return tensor("a", {32}, UINT32_MAX, 0); }},
        FileDefect{"MisalignedOffset", "expected a multiple of 32, got 33",
                   [] { return tensor("a", {1}, 0, 33); }},
        FileDefect{"OffsetWraps", "offset past any file",
                   [] { return tensor("a", {32}, 0, kMax - 31); }},
        FileDefect{"OffsetPastEnd", "file ends before the tensor's data",
                   [] { return tensor("a", {1}, 0, 1 << 20); }},
        FileDefect{"OneByteShort", "got 67, 1 missing",
                   [] { return Bytes().header(1, 0).tensor("a", {1}, 0, 0).pad().zeros(3); }},
        FileDefect{"NoDataSection", "file ends before the tensor's data",
                   [] { return Bytes().header(1, 0).tensor("a", {1}, 0, 0); }},
        FileDefect{"Overlap", "expected an offset of at least 36, got 32 (tensor b)",
                   [] {
                     return Bytes()
                         .header(2, 0)
                         .tensor("a", {9}, 0, 0)
                         .tensor("b", {1}, 0, 32)
                         .pad()
                         .zeros(128);
                   }}),
    case_name<FileDefect>);

TEST(BadPath, IsNamed) {
  const TemporaryDirectory directory;
  const std::string missing = directory.file("missing.gguf");
  EXPECT_EQ(error_of([&] { GgufFile::open(missing); }),
            missing + ": cannot open: No such file or directory");
  EXPECT_NE(error_of([&] { GgufFile::open(directory.file("")); }).find("is a directory"),
            std::string::npos);
  const std::string pipe = directory.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { GgufFile::open(pipe); }).find("not a regular file"), std::string::npos);
  const std::string empty = directory.write("empty.gguf", "");
  for (const MapMode mode : {MapMode::Mmap, MapMode::Read}) {
    EXPECT_NE(error_of([&] { GgufFile::open(empty, {.map = mode}); }).find("file is empty"),
              std::string::npos);
  }
}

TEST(Tolerated, LongTensorNameWarns) {
  EXPECT_EQ(parse(tensor(std::string(64, 'x'), {1}, 0, 0).data).warnings().size(), 1U);
  EXPECT_TRUE(parse(tensor(std::string(63, 'x'), {1}, 0, 0).data).warnings().empty());
}

// A file may have a million of them.
TEST(Tolerated, ManyLongTensorNamesWarnOnce) {
  Bytes file;
  file.header(3, 0);
  for (const char c : {'x', 'y', 'z'}) file.tensor(std::string(64, c), {1}, 0, 32 * (c - 'x'));
  const std::vector<std::string> warnings = parse(file.pad().zeros(96).data).warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings.front(), "3 tensor names longer than 63 bytes, which other programs refuse: " +
                                  std::string(63, 'x') + "…");
}

TEST(Tolerated, DeepestNesting) { EXPECT_EQ(parse(nested(8).data).keys().size(), 1U); }

}  // namespace
}  // namespace cria::test
