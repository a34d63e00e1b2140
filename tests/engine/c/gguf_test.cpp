// The C interface of tensor types and GGUF files.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/engine/c/c_api.h"

namespace cria::test {
namespace {

constexpr const char* kDemoFile = CRIA_DATA "/cria-demo-Q8_0.gguf";

std::string temporary_file(const char* name) {
  return (std::filesystem::path(testing::TempDir()) / name).string();
}

class CGguf : public testing::Test {
 protected:
  CGguf() { EXPECT_EQ(cria_gguf_open(kDemoFile, nullptr, &file.handle), CRIA_OK); }
  Owned<cria_gguf> file{cria_gguf_free};
};

TEST_F(CGguf, TellsFieldsAndTensors) {
  cria_gguf_info info = CRIA_STRUCT(cria_gguf_info);
  ASSERT_EQ(cria_gguf_get_info(file.handle, &info), CRIA_OK);
  EXPECT_EQ(info.version, 3U);
  EXPECT_EQ(info.n_files, 1U);
  ASSERT_GT(info.n_fields, 0U);
  ASSERT_GT(info.n_tensors, 0U);
  bool found = false;
  for (std::size_t i = 0; i < info.n_fields; ++i) {
    cria_gguf_field field = CRIA_STRUCT(cria_gguf_field);
    ASSERT_EQ(cria_gguf_get_field(file.handle, i, &field), CRIA_OK);
    if (std::string(field.key, field.key_size) != "general.architecture") continue;
    found = true;
    EXPECT_EQ(field.type, CRIA_GGUF_STRING);
    EXPECT_EQ(std::string(static_cast<const char*>(field.data), field.bytes), "llama");
  }
  EXPECT_TRUE(found);
  cria_gguf_field field = CRIA_STRUCT(cria_gguf_field);
  EXPECT_EQ(cria_gguf_get_field(file.handle, info.n_fields, &field), CRIA_ERROR_ARGUMENT);
  for (std::size_t i = 0; i < info.n_tensors; ++i) {
    cria_gguf_tensor tensor = CRIA_STRUCT(cria_gguf_tensor);
    ASSERT_EQ(cria_gguf_get_tensor(file.handle, i, &tensor), CRIA_OK);
    cria_dtype type = CRIA_STRUCT(cria_dtype);
    ASSERT_EQ(cria_dtype_find(tensor.dtype, 0, &type), CRIA_OK);
    EXPECT_EQ(tensor.bytes,
              (type.header_bytes + tensor.shape[0] / type.block_values * type.block_bytes) *
                  tensor.shape[1] * tensor.shape[2] * tensor.shape[3]);
    EXPECT_EQ(tensor.offset % info.alignment, 0U);
    EXPECT_NE(tensor.data, nullptr);
  }
}

TEST_F(CGguf, RefusesWrongHandles) {
  const cria_gguf other{file.handle.id + 1};
  cria_gguf_info info = CRIA_STRUCT(cria_gguf_info);
  EXPECT_EQ(cria_gguf_get_info(other, &info), CRIA_ERROR_HANDLE);
  EXPECT_EQ(cria_gguf_writer_finish({file.handle.id}), CRIA_ERROR_HANDLE);
  cria_gguf missing{7};
  EXPECT_EQ(cria_gguf_open("/no/such.gguf", nullptr, &missing), CRIA_ERROR_DATA);
  EXPECT_EQ(missing.id, 0U);
}

TEST(CQuantize, AsksForRoomAndRefusesWhatDoesNotFit) {
  std::vector<float> x(512);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  std::size_t count = 0;
  EXPECT_EQ(cria_quantize("Q4_K", x.data(), x.size(), 256, nullptr, 1, nullptr, 0, &count),
            CRIA_ERROR_CAPACITY);
  ASSERT_EQ(count, 288U);
  std::vector<unsigned char> blocks(count), again(count);
  for (auto* const to : {&blocks, &again})
    ASSERT_EQ(cria_quantize("q4_k", x.data(), x.size(), 256, nullptr, to == &again ? 3 : 1,
                            to->data(), to->size(), &count),
              CRIA_OK);
  EXPECT_EQ(blocks, again);
  std::vector<float> y(x.size());
  ASSERT_EQ(
      cria_dequantize("Q4_K", blocks.data(), blocks.size(), 256, 0, y.data(), y.size(), &count),
      CRIA_OK);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i], 0.1);
  const auto status = [&](const char* type, std::size_t n, std::size_t cols) {
    return cria_quantize(type, x.data(), n, cols, nullptr, 1, blocks.data(), blocks.size(), &count);
  };
  EXPECT_EQ(status("Q9_K", 512, 256), CRIA_ERROR_ARGUMENT);
  EXPECT_EQ(status("Q4_K", 512, 0), CRIA_ERROR_ARGUMENT);
  EXPECT_EQ(status("Q4_K", 512, 128), CRIA_ERROR_ARGUMENT);
  EXPECT_EQ(status("Q4_K", 300, 256), CRIA_ERROR_ARGUMENT);
  x[3] = std::nanf("");
  EXPECT_EQ(status("Q4_K", 512, 256), CRIA_ERROR_DATA);
  EXPECT_EQ(cria_dequantize("Q4_K", blocks.data(), 143, 256, 1, y.data(), y.size(), &count),
            CRIA_ERROR_ARGUMENT);
}

TEST_F(CGguf, WriterReplacesTheFileAtTheEnd) {
  const std::string path = temporary_file("c_gguf_writer.gguf");
  std::filesystem::remove(path);
  Owned<cria_gguf_writer> writer(cria_gguf_writer_free);
  EXPECT_EQ(cria_gguf_writer_create(path.c_str(), 24, &writer.handle), CRIA_ERROR_ARGUMENT);
  ASSERT_EQ(cria_gguf_writer_create(path.c_str(), 0, &writer.handle), CRIA_OK);
  ASSERT_EQ(cria_gguf_writer_copy_field(writer.handle, file.handle, 0), CRIA_OK);
  const std::uint32_t number = 5;
  EXPECT_EQ(cria_gguf_writer_set(writer.handle, "a", CRIA_GGUF_U32, 0, 1, &number, 3),
            CRIA_ERROR_ARGUMENT);
  EXPECT_EQ(cria_gguf_writer_set(writer.handle, "a", CRIA_GGUF_U32, 0, 1, &number, 4), CRIA_OK);
  const char lying[8] = {9};  // a string that would be longer than the array
  EXPECT_EQ(
      cria_gguf_writer_set(writer.handle, "b", CRIA_GGUF_ARRAY, CRIA_GGUF_STRING, 1, lying, 8),
      CRIA_ERROR_ARGUMENT);
  const std::uint64_t shape[] = {4, 2};
  ASSERT_EQ(cria_gguf_writer_declare(writer.handle, "t", "F32", shape, 2), CRIA_OK);
  EXPECT_EQ(cria_gguf_writer_declare(writer.handle, "u", "Q4_K", shape, 2), CRIA_ERROR_DATA);
  const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_EQ(cria_gguf_writer_write(writer.handle, values, 16), CRIA_OK) << cria_last_error();
  EXPECT_EQ(cria_gguf_writer_finish(writer.handle), CRIA_ERROR_DATA);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(cria_gguf_writer_write(writer.handle, values, 20), CRIA_ERROR_ARGUMENT);
  ASSERT_EQ(cria_gguf_writer_write(writer.handle, values + 4, 16), CRIA_OK);
  ASSERT_EQ(cria_gguf_writer_finish(writer.handle), CRIA_OK) << cria_last_error();
  Owned<cria_gguf> back(cria_gguf_free);
  ASSERT_EQ(cria_gguf_open(path.c_str(), nullptr, &back.handle), CRIA_OK) << cria_last_error();
  cria_gguf_tensor tensor = CRIA_STRUCT(cria_gguf_tensor);
  ASSERT_EQ(cria_gguf_get_tensor(back.handle, 0, &tensor), CRIA_OK);
  ASSERT_EQ(tensor.bytes, sizeof values);
  EXPECT_EQ(std::memcmp(tensor.data, values, sizeof values), 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace cria::test
