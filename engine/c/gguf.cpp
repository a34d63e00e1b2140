// The C interface: tensor types, GGUF files read and written.
#include <cmath>
#include <cstdint>
#include <mutex>

#include "engine/c/call.h"
#include "engine/quantize/rows.h"
#include "model/gguf/gguf.h"
#include "model/gguf/parser.h"
#include "model/gguf/writer.h"

namespace cria::c_api {
namespace {

struct GgufObject {
  static constexpr HandleKind kKind = HandleKind::Gguf;
  static constexpr const char* kName = "GGUF file";
  GgufFile file;
};

const DTypeInfo& type_named(const char* name) {
  const DTypeInfo* const info = find_dtype(std::string_view(&required(name, "dtype")));
  if (info == nullptr) throw Failure(CRIA_ERROR_ARGUMENT, std::string("no tensor type ") + name);
  return *info;
}

/// A type whose rows of this length can be decoded and encoded.
const DTypeInfo& type_of_rows(const char* name, std::size_t cols) {
  const DTypeInfo& info = type_named(name);
  if (cols == 0 || cols % info.block_values != 0)
    throw Failure(CRIA_ERROR_ARGUMENT, "row length does not fit " + std::string(info.name) +
                                           ": expected a multiple of " +
                                           std::to_string(info.block_values) + ", got " +
                                           std::to_string(cols));
  if (cols > PTRDIFF_MAX / 16) throw Failure(CRIA_ERROR_ARGUMENT, "cols is too large");
  return info;
}

/// Element `index` of the fields, tensors or warnings of a file.
template <class List>
const auto& element(const List& list, std::size_t index, const char* what) {
  if (index >= list.size())
    throw Failure(CRIA_ERROR_ARGUMENT, std::string("no ") + what + " " + std::to_string(index) +
                                           ": the file has " + std::to_string(list.size()));
  return list[index];
}

/// Bytes of a value of this type; 0 for strings, arrays and unknown types.
std::size_t value_bytes(std::int32_t type) {
  const bool known = type >= CRIA_GGUF_U8 && type <= CRIA_GGUF_F64;
  return known ? scalar_bytes(static_cast<GgufType>(type)) : 0;
}

void require_bytes(std::string_view key, std::uint64_t expected, std::size_t got) {
  if (expected != got)
    throw Failure(CRIA_ERROR_ARGUMENT, "wrong size of a value: expected " +
                                           counted(expected, "byte") + ", got " +
                                           std::to_string(got) + " (key " + std::string(key) + ")");
}

/// Reads the bytes of an array. Strings are checked here, so that the file equals what its caller
/// gave.
GgufArray array_of(std::string_view key, std::int32_t element, std::uint64_t count,
                   std::string_view bytes) {
  const std::size_t size = value_bytes(element);
  if (size != 0) {
    if (count > SIZE_MAX / size) throw Failure(CRIA_ERROR_ARGUMENT, "count is too large");
    require_bytes(key, count * size, bytes.size());
  } else if (element == CRIA_GGUF_STRING) {
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t length = 0;
      if (bytes.size() - at < sizeof length) require_bytes(key, at + sizeof length, bytes.size());
      std::memcpy(&length, bytes.data() + at, sizeof length);
      at += sizeof length;
      if (length > bytes.size() - at)
        throw Failure(CRIA_ERROR_ARGUMENT,
                      "a string is longer than the array (key " + std::string(key) + ")");
      at += length;
    }
    require_bytes(key, at, bytes.size());
  } else {
    throw Failure(CRIA_ERROR_ARGUMENT,
                  "arrays of this type cannot be written (key " + std::string(key) + ")");
  }
  return {.element = static_cast<GgufType>(element),
          .values = {},
          .copied = count,
          .payload = std::string(bytes)};
}

GgufData value_of(std::string_view key, std::int32_t type, std::string_view bytes) {
  if (type == CRIA_GGUF_STRING) return std::string(bytes);
  const std::size_t size = value_bytes(type);
  if (size == 0) throw Failure(CRIA_ERROR_ARGUMENT, "no such type of values");
  require_bytes(key, size, bytes.size());
  return scalar_value(static_cast<GgufType>(type),
                      reinterpret_cast<const std::byte*>(bytes.data()));
}

/// A file that is being written; one thread at a time.
class GgufWriterObject {
 public:
  static constexpr HandleKind kKind = HandleKind::GgufWriter;
  static constexpr const char* kName = "GGUF writer";
  GgufWriterObject(const std::string& path, std::uint64_t alignment) : writer_(path, alignment) {}

  void set(std::string_view key, GgufData value) {
    const std::scoped_lock lock(mutex_);
    require_unbegun();
    if (key == "general.alignment")
      throw Failure(CRIA_ERROR_ARGUMENT,
                    "general.alignment is an argument of cria_gguf_writer_create()");
    writer_.set(key, std::move(value));
  }
  void declare(std::string_view name, const DTypeInfo& type, std::span<const std::uint64_t> shape) {
    const std::scoped_lock lock(mutex_);
    require_unbegun();
    if (shape.empty() || shape.size() > 4)
      throw Failure(CRIA_ERROR_ARGUMENT, "expected 1 to 4 dimensions");
    std::uint64_t values = 1;
    for (const std::uint64_t n : shape) {
      if (n == 0 || n > kMaxValues / values)
        throw Failure(
            CRIA_ERROR_ARGUMENT,
            "a tensor without values, or of more than 2^56 (tensor " + std::string(name) + ")");
      values *= n;
    }
    writer_.declare(name, type.id, {shape.begin(), shape.end()});
    bytes_.push_back(type.row_bytes(shape[0]) * (values / shape[0]));
  }
  void write(std::span<const std::byte> data) {
    const std::scoped_lock lock(mutex_);
    begin();
    if (data.empty()) return;
    const std::uint64_t left = next_ < bytes_.size() ? bytes_[next_] - written_ : 0;
    if (data.size() > left)
      throw Failure(CRIA_ERROR_ARGUMENT, "more data than the tensor has: expected up to " +
                                             counted(left, "byte") + ", got " +
                                             std::to_string(data.size()));
    writer_.write(data);
    written_ += data.size();
    if (written_ == bytes_[next_]) ++next_, written_ = 0;
  }
  void finish() {
    const std::scoped_lock lock(mutex_);
    begin();
    writer_.finish();
    finished_ = true;
  }

 private:
  static constexpr std::uint64_t kMaxValues = std::uint64_t{1} << 56;

  void require_unbegun() const {
    if (begun_) throw Failure(CRIA_ERROR_ARGUMENT, "data has been written: nothing can be added");
  }
  /// Readers must accept the fields and tensors before anything is written.
  void begin() {
    if (finished_) throw Failure(CRIA_ERROR_ARGUMENT, "the file is complete");
    if (begun_) return;
    const std::string metadata = writer_.metadata();
    (void)GgufFile::from_bytes(std::as_bytes(std::span(metadata)), writer_.path(),
                               {.metadata_only = true});
    writer_.begin();
    begun_ = true;
  }

  std::mutex mutex_;
  GgufWriter writer_;
  std::vector<std::uint64_t> bytes_;  // for the declared tensors
  std::size_t next_ = 0;              // tensor that is being written
  std::uint64_t written_ = 0;         // bytes of it
  bool begun_ = false, finished_ = false;
};

}  // namespace
}  // namespace cria::c_api

using namespace cria::c_api;

cria_status cria_dtype_find(const char* name, uint32_t id, cria_dtype* dtype) {
  return call([&] {
    const cria::DTypeInfo* info = name != nullptr ? &type_named(name) : cria::find_dtype(id);
    if (info == nullptr) throw Failure(CRIA_ERROR_ARGUMENT, "no tensor type " + std::to_string(id));
    cria_dtype out = CRIA_STRUCT(cria_dtype);
    out.name = info->name.data();  // a string literal
    out.id = static_cast<uint32_t>(info->id);
    out.block_values = info->block_values;
    out.block_bytes = info->block_bytes;
    out.header_bytes = info->header_bytes;
    give(dtype, out, "dtype");
  });
}

cria_status cria_dequantize(const char* dtype, const void* data, size_t bytes, size_t cols,
                            uint32_t threads, float* values, size_t capacity, size_t* count) {
  return call([&] {
    const cria::DTypeInfo& info = type_of_rows(dtype, cols);
    const std::span rows = array(static_cast<const std::byte*>(data), bytes, "data");
    const std::size_t row_bytes = info.row_bytes(cols), n_rows = bytes / row_bytes;
    const std::size_t unit_bytes = row_bytes * info.interleaved_rows;
    if (bytes % unit_bytes != 0)
      throw Failure(CRIA_ERROR_ARGUMENT, "not whole rows: expected a multiple of " +
                                             cria::counted(unit_bytes, "byte") + ", got " +
                                             std::to_string(bytes));
    if (n_rows > PTRDIFF_MAX / sizeof(float) / cols)
      throw Failure(CRIA_ERROR_ARGUMENT, "too many rows");
    required(count, "count") = n_rows * cols;
    if (*count > capacity) throw too_small(cria::counted(*count, "value"), capacity);
    if (threads > 1024) throw Failure(CRIA_ERROR_ARGUMENT, "threads: expected up to 1024");
    const std::span out = array(values, *count, "values");
    cria::decode_rows(info.id, rows.data(), n_rows, cols, threads, out.data());
  });
}

cria_status cria_quantize(const char* dtype, const float* values, size_t n_values, size_t cols,
                          const float* importance, uint32_t threads, void* data, size_t capacity,
                          size_t* count) {
  return call([&] {
    const cria::DTypeInfo& info = type_of_rows(dtype, cols);
    const std::span from = array(values, n_values, "values");
    if (n_values % cols != 0)
      throw Failure(CRIA_ERROR_ARGUMENT, "not whole rows: expected a multiple of " +
                                             cria::counted(cols, "value") + ", got " +
                                             std::to_string(n_values));
    required(count, "count") = n_values / cols * info.row_bytes(cols);
    if (*count > capacity) throw too_small(cria::counted(*count, "byte"), capacity);
    if (threads > 1024) throw Failure(CRIA_ERROR_ARGUMENT, "threads: expected up to 1024");
    const std::span out = array(static_cast<std::byte*>(data), *count, "data");
    const std::span<const float> weights =
        importance == nullptr ? std::span<const float>() : std::span(importance, cols);
    cria::encode_rows(info.id, from, cols, weights, threads, out.data());
  });
}

cria_status cria_gguf_open(const char* path, const cria_gguf_options* options, cria_gguf* file) {
  return call([&] {
    required(file, "file").id = 0;
    const cria_gguf_options given = taken(options);
    const cria::GgufOptions how = {
        .map = given.no_mmap != 0 ? cria::MapMode::Read : cria::MapMode::Mmap,
        .metadata_only = given.metadata_only != 0};
    file->id = handle(std::make_shared<GgufObject>(
        GgufObject{cria::GgufFile::open(&required(path, "path"), how)}));
  });
}

cria_status cria_gguf_free(cria_gguf file) {
  return call([&] { removed<GgufObject>(file.id); });
}

cria_status cria_gguf_get_info(cria_gguf file, cria_gguf_info* info) {
  return call([&] {
    const auto of = object<GgufObject>(file.id);
    cria_gguf_info out = CRIA_STRUCT(cria_gguf_info);
    out.version = of->file.version();
    out.n_files = static_cast<uint32_t>(of->file.shard_count());
    out.alignment = of->file.alignment();
    out.file_bytes = of->file.file_bytes();
    out.n_fields = of->file.keys().size();
    out.n_tensors = of->file.tensors().size();
    out.n_warnings = of->file.warnings().size();
    give(info, out, "info");
  });
}

cria_status cria_gguf_get_warning(cria_gguf file, size_t index, const char** text) {
  return call([&] {
    const auto of = object<GgufObject>(file.id);
    required(text, "text") = element(of->file.warnings(), index, "warning").c_str();
  });
}

cria_status cria_gguf_get_field(cria_gguf file, size_t index, cria_gguf_field* field) {
  return call([&] {
    const auto of = object<GgufObject>(file.id);
    const cria::GgufKey& key = element(of->file.keys(), index, "field");
    cria_gguf_field out = CRIA_STRUCT(cria_gguf_field);
    out.key = key.key.data();
    out.key_size = key.key.size();
    out.type = static_cast<int32_t>(key.value.type);
    out.element = static_cast<int32_t>(key.value.element);
    out.count = key.value.count;
    out.data = key.value.data;
    out.bytes = key.value.bytes;
    give(field, out, "field");
  });
}

cria_status cria_gguf_get_tensor(cria_gguf file, size_t index, cria_gguf_tensor* tensor) {
  return call([&] {
    const auto of = object<GgufObject>(file.id);
    const cria::TensorView& view = element(of->file.tensors(), index, "tensor");
    cria_gguf_tensor out = CRIA_STRUCT(cria_gguf_tensor);
    out.name = view.name.data();
    out.name_size = view.name.size();
    out.dtype = cria::name(view.dtype).data();
    out.n_dims = static_cast<uint32_t>(view.shape.size());
    out.file = static_cast<uint32_t>(view.shard);
    for (std::size_t i = 0; i < 4; ++i) out.shape[i] = i < view.shape.size() ? view.shape[i] : 1;
    out.offset = view.offset;
    out.data = view.data;
    out.bytes = view.bytes;
    give(tensor, out, "tensor");
  });
}

cria_status cria_gguf_writer_create(const char* path, uint64_t alignment,
                                    cria_gguf_writer* writer) {
  return call([&] {
    required(writer, "writer").id = 0;
    if (alignment == 0) alignment = 32;
    if (alignment < 8 || alignment > 1U << 20 || (alignment & (alignment - 1)) != 0)
      throw Failure(
          CRIA_ERROR_ARGUMENT,
          "alignment: expected a power of two from 8 to 1048576, got " + std::to_string(alignment));
    writer->id = handle(std::make_shared<GgufWriterObject>(&required(path, "path"), alignment));
  });
}

cria_status cria_gguf_writer_free(cria_gguf_writer writer) {
  return call([&] { removed<GgufWriterObject>(writer.id); });
}

cria_status cria_gguf_writer_set(cria_gguf_writer writer, const char* key, int32_t type,
                                 int32_t element, uint64_t count, const void* data, size_t bytes) {
  return call([&] {
    const auto to = object<GgufWriterObject>(writer.id);
    const std::string_view payload = text(static_cast<const char*>(data), bytes, "data");
    const std::string_view name = &required(key, "key");
    to->set(name, type == CRIA_GGUF_ARRAY ? cria::GgufData(array_of(name, element, count, payload))
                                          : value_of(name, type, payload));
  });
}

cria_status cria_gguf_writer_copy_field(cria_gguf_writer writer, cria_gguf file, size_t index) {
  return call([&] {
    const auto to = object<GgufWriterObject>(writer.id);
    const auto from = object<GgufObject>(file.id);
    const cria::GgufKey& key = element(from->file.keys(), index, "field");
    to->set(key.key, cria::copy_value(from->file, key.value));
  });
}

cria_status cria_gguf_writer_declare(cria_gguf_writer writer, const char* name, const char* dtype,
                                     const uint64_t* shape, size_t n_dims) {
  return call([&] {
    object<GgufWriterObject>(writer.id)->declare(&required(name, "name"), type_named(dtype),
                                                 array(shape, n_dims, "shape"));
  });
}

cria_status cria_gguf_writer_write(cria_gguf_writer writer, const void* data, size_t bytes) {
  return call([&] {
    object<GgufWriterObject>(writer.id)->write(
        array(static_cast<const std::byte*>(data), bytes, "data"));
  });
}

cria_status cria_gguf_writer_finish(cria_gguf_writer writer) {
  return call([&] { object<GgufWriterObject>(writer.id)->finish(); });
}
